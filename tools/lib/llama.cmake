# Included by CMake at the project() of llama-cpp-python, through CMAKE_PROJECT_llama_cpp_INCLUDE: build libllama and
# ggml alone. The package forces its cache entries; a variable of the same name goes before those (policy CMP0126).
set(LLAVA_BUILD OFF)
set(LLAMA_BUILD_COMMON OFF)
set(LLAMA_BUILD_EXAMPLES OFF)
set(LLAMA_BUILD_SERVER OFF)
set(LLAMA_BUILD_TESTS OFF)
set(LLAMA_BUILD_TOOLS OFF)
