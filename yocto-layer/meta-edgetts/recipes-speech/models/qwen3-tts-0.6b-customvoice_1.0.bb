SUMMARY = "Qwen3-TTS 12 Hz 0.6B CustomVoice as an edgettsd bundle"
DESCRIPTION = "The published checkpoint after tools/convert, fetched from the site's own mirror. The checkpoint's \
licence is Apache-2.0; the archive must hold it as LICENSE beside manifest.json."
HOMEPAGE = "https://github.com/QwenLM/Qwen3-TTS"
SECTION = "multimedia"
LICENSE = "Apache-2.0"
LIC_FILES_CHKSUM = "file://${COMMON_LICENSE_DIR}/Apache-2.0;md5=89aea4e17d99a7cacdbeed46a0096b10"

# Precision of talker and predictor, part of the archive's name: tools/convert made it.
QWEN3_TTS_PRECISION ?= "q4_0"
QWEN3_TTS_ARCHIVE = "${BPN}-${QWEN3_TTS_PRECISION}-${PV}.tar"
# A site's conversion has a digest of its own: state it in the site's configuration.
QWEN3_TTS_SHA256 ?= ""
SRC_URI = "${EDGETTS_MODEL_MIRROR}/${QWEN3_TTS_ARCHIVE};subdir=bundle"
SRC_URI[sha256sum] = "${QWEN3_TTS_SHA256}"

S = "${UNPACKDIR}/bundle"

inherit edgetts_model

EDGETTS_MODEL_SHA256 = "QWEN3_TTS_SHA256"
