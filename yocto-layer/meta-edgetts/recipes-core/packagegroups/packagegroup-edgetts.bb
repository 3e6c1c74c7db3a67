SUMMARY = "Text-to-speech: daemon, command line, voice"
DESCRIPTION = "Everything that an image needs to speak; -gpu adds the decoder's GPU accelerator."
SECTION = "multimedia"
LICENSE = "Apache-2.0"

inherit packagegroup

PACKAGES = "${PN} ${PN}-gpu"

# Packages of the voices; the one named by EDGETTS_MODEL speaks.
EDGETTS_VOICES ?= "edgettsd-voice-joe"

RDEPENDS:${PN} = "\
    ${EDGETTS_VOICES} \
    alsa-utils \
    edgettsctl \
    edgettsd \
    edgettsd-conf \
"
RDEPENDS:${PN}-gpu = "\
    ${PN} \
    litert-webgpu \
"
