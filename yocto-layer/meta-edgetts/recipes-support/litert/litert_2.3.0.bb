SUMMARY = "Run-time library for TFLite models"
SUMMARY:${PN}-webgpu = "GPU accelerator of LiteRT (WebGPU over Vulkan)"
DESCRIPTION = "libLiteRt with its C API and the WebGPU accelerator, as built by its authors: the two shared \
libraries of the ai-edge-litert wheel, nothing of its Python code."
HOMEPAGE = "https://ai.google.dev/edge/litert"
SECTION = "libs"
LICENSE = "Apache-2.0"
LIC_FILES_CHKSUM = "file://ai_edge_litert-${PV}.dist-info/licenses/LICENSE;md5=86d3f3a95c324c9479bd8986968f4327"

# The libraries are the same in the wheels for every Python version; this one is for 3.11. A wheel is a zip file.
LITERT_TAG = "cp311"
PYPI_PACKAGE = "ai-edge-litert"
LITERT_WHEEL = "ai_edge_litert-${PV}-${LITERT_TAG}-${LITERT_TAG}-manylinux_2_27_aarch64.whl"
LITERT_FOLDER = "${@os.path.dirname(pypi_src_uri(d)).replace('/source/', '/' + d.getVar('LITERT_TAG') + '/')}"
PYPI_SRC_URI = "${LITERT_FOLDER}/${LITERT_WHEEL};downloadfilename=${LITERT_WHEEL}.zip;subdir=litert"
SRC_URI[sha256sum] = "853fc608f96da87bd5f3458465dfb9abbf18d5ae6b94eceacead407146f175ae"

inherit pypi

# After the pypi class, which has a folder of its own choice.
S = "${UNPACKDIR}/litert"

COMPATIBLE_HOST = "aarch64.*-linux"

do_configure[noexec] = "1"
do_compile[noexec] = "1"

do_install() {
    install -d ${D}${libdir}
    install -m 0755 ${S}/ai_edge_litert/libLiteRt.so ${D}${libdir}
    install -m 0755 ${S}/ai_edge_litert/libLiteRtWebGpuAccelerator.so ${D}${libdir}
}

PACKAGES =+ "${PN}-webgpu"

FILES:${PN}-webgpu = "${libdir}/libLiteRtWebGpuAccelerator.so"
# The sonames carry no version, so the plain names belong to the run-time packages.
FILES:${PN} = "${libdir}/libLiteRt.so"
FILES_SOLIBSDEV = ""
RRECOMMENDS:${PN}-webgpu += "vulkan-loader"

# Built and stripped by their authors.
INHIBIT_PACKAGE_STRIP = "1"
INHIBIT_SYSROOT_STRIP = "1"
INHIBIT_PACKAGE_DEBUG_SPLIT = "1"
INSANE_SKIP:${PN} = "already-stripped ldflags"
INSANE_SKIP:${PN}-webgpu = "already-stripped ldflags"
