"""The streaming decoder as one TFLite subgraph for a fixed number of frames.

Every causal layer keeps what it needs of the past in a state tensor: the last inputs of a
convolution, the last window - 1 keys and values of an attention layer, and how much of those is
filled. A state is read by one CONCATENATION (or the one ADD of the fill count) before its
successor is written, so a caller may pass the same memory as input and output.

Keys are cached before rotation and rotated by their place in the window on every call. RoPE
depends on differences only, so the result is that of absolute positions, for streams of any
length: no table of max_position_embeddings rows, no growing angle that loses precision.
"""

from __future__ import annotations

import numpy as np

from .config import CONV_TAPS, DILATIONS, LAYER_NORM_EPS, PRE_CONV_TAPS, DecoderConfig
from .flatbuffer import Constant, Graph, Tensor
from .ops import Ops, half_precision
from .toom import POINTS, ToomConv, fold, padding
from .weights import F32, Affine, Weights

# Large enough that exp() gives exactly 0, small enough for float16 (two may add up).
_MASKED = -3e4


class DecoderGraph:
    """Builds the subgraph ``decode_N``: codes and states in, samples and states out."""

    def __init__(
        self, graph: Graph, config: DecoderConfig, weights: Weights, precision: str, conv: str
    ) -> None:
        self._graph = graph
        self._config = config
        self._weights = weights
        self._ops = Ops(graph, precision)
        self._toom = ToomConv(self._ops) if conv == "toom" else None
        self._states: list[tuple[Tensor, Tensor]] = []

    def build(self, frames: int) -> int:
        """Add all operators for calls of ``frames`` frames; returns the number of state tensors."""
        codes = self._graph.input("codes", (1, frames, self._config.quantizers), "int32")
        x = self._embed(codes)
        x = self._entry(x)
        x = self._transformer(x)
        for stage in range(len(self._config.ratios)):
            x = self._upsample(x, stage)
        x = self._vocoder(x)
        self._graph.output("pcm", self._ops.reshape(x, 1, frames * self._config.samples_per_frame))
        for index, (_, successor) in enumerate(self._states):
            self._graph.output(f"state_{index:02d}", successor)
        return len(self._states)

    # -- state ----------------------------------------------------------------------------------

    def _state(self, *shape: int) -> Tensor:
        """Declare the next state input; its successor is set by _keep."""
        tensor = self._graph.input(f"state_{len(self._states):02d}", shape)
        self._states.append((tensor, tensor))
        return tensor

    def _keep(self, state: Tensor, successor: Tensor) -> None:
        index = next(i for i, (tensor, _) in enumerate(self._states) if tensor is state)
        self._states[index] = (state, successor)

    def _with_past(self, x: Tensor, past: int, axis: int = 2, padding: int = 0) -> Tensor:
        """x after its last ``past`` predecessors along ``axis`` (zeros at the start of a stream).

        ``padding`` zeros follow it, which no state remembers.
        """
        shape = list(x.shape)
        shape[axis] = past
        state = self._state(*shape)
        parts = [state, x]
        if padding:
            shape[axis] = padding
            name = "zeros_" + "_".join(str(n) for n in shape)
            parts.append(self._ops.f32(name, lambda: np.zeros(shape)))
        joined = self._ops.concat(parts, axis)
        self._keep(state, self._ops.slice(joined, axis, x.shape[axis], past))
        return joined

    # -- codes to hidden ------------------------------------------------------------------------

    def _embed(self, codes: Tensor) -> Tensor:
        """codes [1, N, Q] -> [1, 1, N, codebook_dim]: first codebook's vector | sum of the others'."""
        c, ops = self._config, self._ops
        frames = codes.shape[1]
        offsets = self._graph.constant(
            "codebook_offsets",
            lambda: Constant((np.arange(c.quantizers, dtype=np.int32) * c.codebook_size)[None, None]),
        )
        rows = ops.reshape(ops.add(codes, offsets), frames * c.quantizers)
        if ops.precision == "f32":
            vectors = ops.gather(ops.f32("codebooks", self._weights.codebooks), rows)
        else:
            # The table stays f16 in memory: only the gathered rows are widened.
            table = self._graph.constant(
                "codebooks", lambda: Constant(half_precision(self._weights.codebooks(), "codebooks"))
            )
            vectors = ops.cast_f32(ops.gather(table, rows))
        half = c.codebook_dim // 2
        vectors = ops.reshape(vectors, 1, frames, c.quantizers, half)
        first = ops.slice(vectors, 2, 0, 1)
        rest = ops.reduce("SUM", ops.slice(vectors, 2, 1, c.quantizers - 1), 2)
        return ops.reshape(ops.concat([first, rest], 3), 1, 1, frames, c.codebook_dim)

    def _entry(self, x: Tensor) -> Tensor:
        joined = self._with_past(x, PRE_CONV_TAPS - 1)
        # Few multiplications, but every later layer hears their rounding.
        affine = self._ops.affine("entry", self._weights.entry, self._unquantized())
        return self._ops.conv(joined, *affine)

    # -- transformer ----------------------------------------------------------------------------

    def _rms(self, x: Tensor) -> Tensor:
        """x / sqrt(mean(x^2) + eps); the weight is folded into what follows."""
        ops = self._ops
        mean = ops.reduce("MEAN", ops.mul(x, x), -1)
        eps = ops.f32("rms_eps", lambda: np.full((1, 1, 1, 1), self._config.rms_eps))
        return ops.mul(x, ops.unary("RSQRT", ops.add(mean, eps)))

    def _mask(self, frames: int) -> Tensor:
        """[1, 1, N, past + N]: 0 where query i may see slot j, very negative elsewhere.

        Slot j holds the frame j - past relative to the first query. The fill count, a state that
        stops at ``past``, says how many slots before it have been written.
        """
        ops = self._ops
        past = self._config.window - 1
        slots = past + frames
        filled = self._state(1, 1, 1, 1)
        age = ops.f32(f"slot_age_{frames}", lambda: np.arange(slots)[None, None, None] - past)
        place = ops.add(filled, age)
        # The successor comes from `place`, never from the input again: it may overwrite the input.
        limit = ops.f32("past_less_1", lambda: np.full((1, 1, 1, 1), past - 1))
        one = ops.f32("one", lambda: np.ones((1, 1, 1, 1)))
        last = ops.slice(place, 3, slots - 1, 1)
        self._keep(filled, ops.add(ops.minimum(last, limit), one))
        below = ops.maximum(place, ops.f32("minus_one", lambda: np.full((1, 1, 1, 1), -1)))
        below = ops.minimum(below, ops.f32("zero", lambda: np.zeros((1, 1, 1, 1))))
        empty = ops.mul(below, ops.f32("masked", lambda: np.full((1, 1, 1, 1), -_MASKED)))
        return ops.add(empty, ops.f32(f"band_{frames}", lambda: self._band(frames)))

    def _band(self, frames: int) -> F32:
        past = self._config.window - 1
        query = np.arange(frames)[:, None]
        slot = np.arange(past + frames)[None, :]
        seen = (slot >= query) & (slot <= query + past)
        return np.where(seen, 0.0, _MASKED).astype(np.float32)[None, None]

    def _rotate(self, x: Tensor, start: int) -> Tensor:
        """Rotate [1, heads, T, head_dim] as positions start, start + 1, ..."""
        c, ops = self._config, self._ops
        half = c.head_dim // 2
        time = x.shape[2]

        def table(part: str) -> F32:
            inverse = c.rope_theta ** (-np.arange(half) * 2.0 / c.head_dim)
            angle = (start + np.arange(time))[:, None] * inverse[None, :]
            cos, sin = np.cos(angle), np.sin(angle)
            row = [cos, cos] if part == "cos" else [-sin, sin]
            return np.concatenate(row, axis=1).astype(np.float32)[None, None]

        cos = ops.f32(f"rope_cos_{start}_{time}", lambda: table("cos"))
        sin = ops.f32(f"rope_sin_{start}_{time}", lambda: table("sin"))
        swapped = ops.concat([ops.slice(x, 3, half, half), ops.slice(x, 3, 0, half)], 3)
        return ops.add(ops.mul(x, cos), ops.mul(swapped, sin))

    def _attention(self, x: Tensor, layer: int, mask: Tensor) -> Tensor:
        c, ops = self._config, self._ops
        frames = x.shape[2]
        past = c.window - 1
        heads = c.heads + 2 * c.kv_heads
        qkv = ops.linear(self._rms(x), *ops.affine(f"qkv_{layer}", lambda: self._weights.qkv(layer)))
        qkv = ops.transpose(ops.reshape(qkv, 1, frames, heads, c.head_dim), 0, 2, 1, 3)
        q = self._rotate(ops.slice(qkv, 1, 0, c.heads), past)
        k = self._with_past(ops.slice(qkv, 1, c.heads, c.kv_heads), past)
        v = self._with_past(ops.slice(qkv, 1, c.heads + c.kv_heads, c.kv_heads), past)
        # Query heads that share a key head become rows of one product.
        group = c.heads // c.kv_heads
        q = ops.reshape(q, 1, c.kv_heads, group * frames, c.head_dim)
        scores = ops.matmul(q, self._rotate(k, 0), transpose_b=True)
        scores = ops.add(ops.reshape(scores, 1, c.heads, frames, past + frames), mask)
        weights = ops.unary("SOFTMAX", scores, "SoftmaxOptions", beta=1.0)
        mixed = ops.matmul(ops.reshape(weights, 1, c.kv_heads, group * frames, past + frames), v)
        mixed = ops.transpose(ops.reshape(mixed, 1, c.heads, frames, c.head_dim), 0, 2, 1, 3)
        mixed = ops.reshape(mixed, 1, 1, frames, c.heads * c.head_dim)
        return ops.linear(
            mixed, *ops.affine(f"attention_out_{layer}", lambda: self._weights.attention_out(layer))
        )

    def _feed_forward(self, x: Tensor, layer: int) -> Tensor:
        ops, ffn = self._ops, self._config.ffn
        both = ops.linear(self._rms(x), *ops.affine(f"gate_up_{layer}", lambda: self._weights.gate_up(layer)))
        gate, up = ops.slice(both, 3, 0, ffn), ops.slice(both, 3, ffn, ffn)
        gate = ops.mul(gate, ops.unary("LOGISTIC", gate))
        return ops.linear(ops.mul(gate, up), *ops.affine(f"down_{layer}", lambda: self._weights.down(layer)))

    def _transformer(self, x: Tensor) -> Tensor:
        """[1, 1, N, hidden] -> the same, normalised; the output projection is in the next linear."""
        mask = self._mask(x.shape[2])
        for layer in range(self._config.layers):
            x = self._ops.add(x, self._attention(x, layer, mask))
            x = self._ops.add(x, self._feed_forward(x, layer))
        return self._rms(x)

    # -- upsampling and vocoder -----------------------------------------------------------------

    def _upsample(self, x: Tensor, stage: int) -> Tensor:
        """Transposed convolution (kernel = stride) and a ConvNeXt block: [1, 1, ratio * T, latent]."""
        c, ops, w = self._config, self._ops, self._weights
        x = ops.linear(x, *ops.affine(f"upsample_{stage}", lambda: w.upsample(stage)))
        x = ops.reshape(x, 1, 1, x.shape[2] * c.ratios[stage], c.latent)
        joined = self._with_past(x, CONV_TAPS - 1)
        y = ops.depthwise(joined, *ops.affine(f"depthwise_{stage}", lambda: w.depthwise(stage), "f32"))
        y = ops.sub(y, ops.reduce("MEAN", y, -1))
        eps = ops.f32("layer_norm_eps", lambda: np.full((1, 1, 1, 1), LAYER_NORM_EPS))
        variance = ops.reduce("MEAN", ops.mul(y, y), -1)
        y = ops.mul(y, ops.unary("RSQRT", ops.add(variance, eps)))
        y = ops.linear(y, *ops.affine(f"pointwise_in_{stage}", lambda: w.pointwise_in(stage)))
        y = ops.unary("GELU", y, "GeluOptions", approximate=False)
        y = ops.linear(y, *ops.affine(f"pointwise_out_{stage}", lambda: w.pointwise_out(stage)))
        return ops.add(x, y)

    def _snake(self, x: Tensor, name: str) -> Tensor:
        """x + sin(a x)^2 / b."""
        ops = self._ops
        made: list[tuple[F32, F32]] = []

        def part(index: int) -> F32:
            if not made:
                made.append(self._weights.snake(name, x.shape[3]))
            return made[0][index]

        frequency = ops.f32(f"{name}.frequency", lambda: part(0))
        magnitude = ops.f32(f"{name}.magnitude", lambda: part(1))
        wave = ops.unary("SIN", ops.mul(x, frequency))
        return ops.add(x, ops.mul(ops.mul(wave, wave), magnitude))

    def _causal(
        self,
        x: Tensor,
        name: str,
        outputs: int,
        dilation: int = 1,
        precision: str = "",
        activation: str = "",
    ) -> Tensor:
        """Causal convolution of 7 taps."""
        ops = self._ops
        inputs = x.shape[3]
        joined = self._with_past(x, (CONV_TAPS - 1) * dilation)
        weight, bias = ops.affine(
            name, lambda: self._weights.conv(name, outputs, inputs, CONV_TAPS), precision
        )
        return ops.conv(joined, weight, bias, dilation, activation)

    def _causal_toom(self, x: Tensor, name: str, outputs: int, dilation: int, toom: ToomConv) -> Tensor:
        """The same by Toom-Cook."""
        time, inputs = x.shape[2], x.shape[3]
        joined = self._with_past(x, (CONV_TAPS - 1) * dilation, padding=padding(time, dilation))
        made: list[list[Affine]] = []

        def product(index: int) -> Affine:
            if not made:
                made.append(fold(self._weights.conv(name, outputs, inputs, CONV_TAPS)))
            return made[0][index]

        linears = [
            self._ops.affine(f"{name}.toom_{i}", lambda i=i: product(i))  # type: ignore[misc]
            for i in range(len(POINTS) + 1)
        ]
        return toom(joined, linears, dilation, time)

    def _residual(self, x: Tensor, name: str, dilation: int) -> Tensor:
        ops = self._ops
        channels = x.shape[3]
        y = self._snake(x, f"{name}.act1")
        if self._toom is not None:
            y = self._causal_toom(y, f"{name}.conv1", channels, dilation, self._toom)
        else:
            y = self._causal(y, f"{name}.conv1", channels, dilation)
        y = self._snake(y, f"{name}.act2")

        def pointwise() -> tuple[F32, F32]:
            weight, bias = self._weights.conv(f"{name}.conv2", channels, channels, 1)
            return weight[:, 0, 0], bias

        return ops.add(x, ops.linear(y, *ops.affine(f"{name}.conv2", pointwise)))

    def _block(self, x: Tensor, index: int) -> Tensor:
        """Snake, transposed convolution by the block's rate, three residual units."""
        ops = self._ops
        name = f"decoder.{index + 1}.block"
        rate = self._config.rates[index]
        inputs, outputs = x.shape[3], x.shape[3] // 2
        joined = self._with_past(self._snake(x, f"{name}.0"), 1)
        weight, bias = ops.affine(
            f"{name}.1", lambda: self._weights.transposed(f"{name}.1", inputs, outputs, rate)
        )
        x = ops.reshape(ops.conv(joined, weight, bias), 1, 1, x.shape[2] * rate, outputs)
        for unit, dilation in enumerate(DILATIONS):
            x = self._residual(x, f"{name}.{unit + 2}", dilation)
        return x

    def _vocoder(self, x: Tensor) -> Tensor:
        """[1, 1, T, latent] -> samples [1, 1, T * prod(rates), 1] in [-1, 1]."""
        rates = self._config.rates
        # Direct in both forms: with so few frames reading 10 matrices costs what 7 taps do.
        x = self._causal(x, "decoder.0", self._config.decoder_dim)
        for index in range(len(rates)):
            x = self._block(x, index)
        x = self._snake(x, f"decoder.{len(rates) + 1}")
        # One output channel costs little: kept f32 so that its rounding is never heard.
        name = f"decoder.{len(rates) + 2}"
        return self._causal(x, name, 1, precision=self._unquantized(), activation="relu_n1_to_1")

    def _unquantized(self) -> str:
        """The precision of layers that int8 and w8 leave alone."""
        return "f32" if self._ops.precision in ("int8", "w8") else self._ops.precision
