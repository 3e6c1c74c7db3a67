# nooelint: oelint.var.mandatoryvar.HOMEPAGE - the source is the tree that this layer lies in
SUMMARY = "Text-to-speech daemon for embedded Linux"
SUMMARY:edgettsctl = "Command line of edgettsd"
SUMMARY:${PN}-gateway = "OpenAI speech API and Wyoming for edgettsd"
SUMMARY:${PN}-kernels = "Compiled parts of edgettsd"
SUMMARY:${PN}-python = "Python modules of edgettsd"
DESCRIPTION = "Speaks text sent over D-Bus with Qwen3-TTS models: language model on llama.cpp, \
codec decoder on LiteRT, playout through ALSA."
SECTION = "multimedia"
LICENSE = "Apache-2.0"
LIC_FILES_CHKSUM = "file://LICENSE;md5=3b83ef96387f14655fc854ddc3c6bd57"

DEPENDS = "alsa-lib litert llama-cpp soxr"

require edgettsd-source.inc

inherit python_mesonpy cython pkgconfig systemd useradd

# Libraries of the image instead of the Python wheels' copies.
EXTRA_OEMESON += "-Dlibs=system"
# pyproject.toml names those wheels as build requirements; this build has no use for them.
PEP517_BUILD_OPTS:append = " --skip-dependency-check"

SYSTEMD_PACKAGES = "${PN} ${PN}-gateway"
SYSTEMD_SERVICE:${PN} = "edgettsd.service"
# The sockets start the gateway's service.
SYSTEMD_SERVICE:${PN}-gateway = "edgettsd-gateway-http.socket edgettsd-gateway-wyoming.socket"

USERADD_PACKAGES = "${PN} ${PN}-gateway"
GROUPADD_PARAM:${PN} = "--system edgettsd"
USERADD_PARAM:${PN} = "--system --no-create-home --home-dir ${localstatedir}/lib/edgettsd \
    --shell /sbin/nologin --gid edgettsd --groups audio edgettsd"
GROUPADD_PARAM:${PN}-gateway = "--system edgettsd; --system edgettsd-gateway"
USERADD_PARAM:${PN}-gateway = "--system --no-create-home --home-dir / \
    --shell /sbin/nologin --gid edgettsd-gateway --groups edgettsd edgettsd-gateway"

do_install:append() {
    # Units, bus policy and activation: a wheel cannot hold them, so they are installed apart.
    meson install -C ${B} --no-rebuild --tags system --destdir ${D}
    # The daemon's configuration is the recipe edgettsd-conf's.
    rm -f ${D}${sysconfdir}/edgettsd/edgettsd.toml
    edgettsd_leave_voice_out
}

# The weights of the built-in voice are the recipe edgettsd-voice-joe's; its code stays.
edgettsd_leave_voice_out() {
    voice=${D}${PYTHON_SITEPACKAGES_DIR}/edgettsd/voice
    if [ -d "$voice" ]; then
        find "$voice" -type f ! -name "*.py" ! -name "*.pyi" -delete
        find "$voice" -type d -empty -delete
    fi
}

PACKAGES =+ "${PN}-gateway ${PN}-kernels ${PN}-python edgettsctl"

FILES:${PN}-gateway = "\
    ${PYTHON_SITEPACKAGES_DIR}/edgettsd/gateways \
    ${bindir}/edgettsd-gateway \
    ${nonarch_libdir}/sysusers.d/edgettsd-gateway.conf \
    ${sysconfdir}/edgettsd/gateway.toml \
    ${systemd_system_unitdir}/edgettsd-gateway-http.socket \
    ${systemd_system_unitdir}/edgettsd-gateway-wyoming.socket \
    ${systemd_system_unitdir}/edgettsd-gateway.service \
"
CONFFILES:${PN}-gateway = "${sysconfdir}/edgettsd/gateway.toml"
FILES:edgettsctl = "${bindir}/edgettsctl"
FILES:${PN}-kernels = "${PYTHON_SITEPACKAGES_DIR}/cython_kernels"
FILES:${PN}-python = "${PYTHON_SITEPACKAGES_DIR}/edgettsd ${PYTHON_SITEPACKAGES_DIR}/edgettsd-*.dist-info"
FILES:${PN} += "\
    ${datadir}/dbus-1 \
    ${datadir}/edgettsd/edgettsd-cpus.conf \
    ${nonarch_libdir}/sysusers.d \
    ${nonarch_libdir}/systemd/catalog \
    ${systemd_system_unitdir} \
    ${systemd_user_unitdir} \
"

RDEPENDS:${PN} += "\
    ${PN}-kernels \
    ${PN}-python \
    dbus \
    edgettsd-conf \
"
# The encoders are loaded by their names; AAC needs ffmpeg besides, where it is wanted.
RDEPENDS:${PN}-gateway += "\
    ${PN} \
    libflac \
    libmp3lame \
    libogg \
    libopus \
    python3-aiohttp \
    python3-markdown-it-py \
    python3-netclient \
"
RDEPENDS:edgettsctl += "${PN}-python"
RDEPENDS:${PN}-kernels += "python3-core python3-numpy"
RDEPENDS:${PN}-python += "\
    python3-asyncio \
    python3-compression \
    python3-core \
    python3-crypt \
    python3-ctypes \
    python3-dbus-fast \
    python3-fcntl \
    python3-html \
    python3-io \
    python3-json \
    python3-logging \
    python3-math \
    python3-mmap \
    python3-numpy \
    python3-statistics \
    python3-threading \
    python3-tomllib \
    python3-xml \
"
RRECOMMENDS:${PN} += "edgettsctl"
