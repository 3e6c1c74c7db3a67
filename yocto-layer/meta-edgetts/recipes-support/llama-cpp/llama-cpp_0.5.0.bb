SUMMARY = "Inference library for language models in GGUF files"
SUMMARY:${PN}-backends = "Plug-ins of ggml: one for each CPU level, and the GPU's"
DESCRIPTION = "libllama and ggml, from the very tree that llama-cpp-python 0.3.36 vendors (llama.cpp commit \
0c1e57098, ggml 0.25.3): their structures are the ABI that edgettsd's kernels are built against."
HOMEPAGE = "https://github.com/ggml-org/llama.cpp"
SECTION = "libs"
LICENSE = "MIT"
LIC_FILES_CHKSUM = "file://LICENSE;md5=223b26b3c1143120c87e2b13111d3e99"

LLAMA_CPP_PYTHON = "0.3.36"
PYPI_PACKAGE = "llama_cpp_python"
PYPI_SRC_URI = "${@pypi_src_uri(d).replace(d.getVar('PV'), d.getVar('LLAMA_CPP_PYTHON'))}"
SRC_URI[sha256sum] = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"

inherit cmake pkgconfig pypi

# After the pypi class, which has a folder of its own choice.
S = "${UNPACKDIR}/llama_cpp_python-${LLAMA_CPP_PYTHON}/vendor/llama.cpp"

PACKAGECONFIG ??= "openmp"
PACKAGECONFIG[openmp] = "-DGGML_OPENMP=ON,-DGGML_OPENMP=OFF"
PACKAGECONFIG[cuda] = "-DGGML_CUDA=ON,-DGGML_CUDA=OFF,cuda-nvcc-native cuda-cudart libcublas"
PACKAGECONFIG[vulkan] = "-DGGML_VULKAN=ON,-DGGML_VULKAN=OFF,vulkan-headers vulkan-loader glslang-native shaderc-native"

# One image for boards with and without dotprod, i8mm and SVE: each level of the instruction set is a plug-in
# and the best one is loaded at run time. The kernels look for them beside libggml.
EXTRA_OECMAKE += "\
    -DBUILD_SHARED_LIBS=ON \
    -DGGML_BACKEND_DIR=${libdir}/ggml \
    -DGGML_BACKEND_DL=ON \
    -DGGML_CPU_ALL_VARIANTS=ON \
    -DGGML_NATIVE=OFF \
    -DLLAMA_BUILD_COMMON=OFF \
    -DLLAMA_BUILD_EXAMPLES=OFF \
    -DLLAMA_BUILD_SERVER=OFF \
    -DLLAMA_BUILD_TESTS=OFF \
    -DLLAMA_BUILD_TOOLS=OFF \
    -DLLAMA_OPENSSL=OFF \
"

PACKAGES =+ "${PN}-backends"

# Plug-ins have no version in their names and are no development files.
FILES:${PN}-backends = "${libdir}/ggml"
INSANE_SKIP:${PN}-backends = "dev-so"
RDEPENDS:${PN} += "${PN}-backends"
