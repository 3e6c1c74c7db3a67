// Snake activation x + sin^2(a x) / b, forward and backward in one pass each, for training on a CPU.
#include <torch/extension.h>
#include <cmath>
#include <vector>

// x [batch, channels, time] contiguous; a, b [channels] (already exponentials).
torch::Tensor forward(torch::Tensor x, torch::Tensor a, torch::Tensor b) {
    auto y = torch::empty_like(x);
    const int64_t rows = x.size(0) * x.size(1), channels = x.size(1), time = x.size(2);
    const float *px = x.data_ptr<float>(), *pa = a.data_ptr<float>(), *pb = b.data_ptr<float>();
    float *py = y.data_ptr<float>();
    for (int64_t row = 0; row < rows; row++) {
        const float scale = pa[row % channels], inverse = 1.0f / (pb[row % channels] + 1e-9f);
        const float *in = px + row * time;
        float *out = py + row * time;
        for (int64_t t = 0; t < time; t++) {
            const float s = sinf(scale * in[t]);
            out[t] = in[t] + inverse * s * s;
        }
    }
    return y;
}

// Gradients of x, of the logarithm of a and of the logarithm of b.
std::vector<torch::Tensor> backward(torch::Tensor g, torch::Tensor x, torch::Tensor a, torch::Tensor b) {
    auto dx = torch::empty_like(x), da = torch::zeros_like(a), db = torch::zeros_like(b);
    const int64_t rows = x.size(0) * x.size(1), channels = x.size(1), time = x.size(2);
    const float *pg = g.data_ptr<float>(), *px = x.data_ptr<float>();
    const float *pa = a.data_ptr<float>(), *pb = b.data_ptr<float>();
    float *pd = dx.data_ptr<float>(), *sa = da.data_ptr<float>(), *sb = db.data_ptr<float>();
    for (int64_t row = 0; row < rows; row++) {
        const int64_t c = row % channels;
        const float scale = pa[c], inverse = 1.0f / (pb[c] + 1e-9f);
        const float *grad = pg + row * time, *in = px + row * time;
        float *out = pd + row * time;
        float sum_a = 0.0f, sum_b = 0.0f;
        for (int64_t t = 0; t < time; t++) {
            const float phase = 2.0f * scale * in[t];
            const float s = sinf(phase), c2 = cosf(phase);
            const float slope = scale * inverse * s;
            out[t] = grad[t] * (1.0f + slope);
            sum_a += grad[t] * slope * in[t];
            sum_b -= grad[t] * inverse * 0.5f * (1.0f - c2);
        }
        sa[c] += sum_a;
        sb[c] += sum_b;
    }
    return {dx, da, db};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward);
    m.def("backward", &backward);
}
