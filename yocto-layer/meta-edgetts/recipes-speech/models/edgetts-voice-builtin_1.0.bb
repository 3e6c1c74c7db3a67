# nooelint: oelint.var.mandatoryvar.HOMEPAGE - the voice is made by the tree that this layer lies in
SUMMARY = "The built-in English voice of edgettsd"
DESCRIPTION = "A small model of the same architecture as Qwen3-TTS, trained by tools of edgettsd's own tree, \
as a bundle that edgettsd reads. It needs a few MB and no accelerator."
SECTION = "multimedia"
LICENSE = "Apache-2.0"
LIC_FILES_CHKSUM = "file://${COMMON_LICENSE_DIR}/Apache-2.0;md5=89aea4e17d99a7cacdbeed46a0096b10"

# The site packs the voice once: tar -C BUNDLE -cf builtin-1.0.tar . and states the archive's sha256.
BUILTIN_ARCHIVE = "builtin-${PV}.tar"
BUILTIN_SHA256 ?= ""
SRC_URI = "${EDGETTS_MODEL_MIRROR}/${BUILTIN_ARCHIVE};subdir=bundle"
SRC_URI[sha256sum] = "${BUILTIN_SHA256}"

S = "${UNPACKDIR}/bundle"

inherit edgetts_model

EDGETTS_MODEL_NAME = "builtin"
EDGETTS_MODEL_SHA256 = "BUILTIN_SHA256"
