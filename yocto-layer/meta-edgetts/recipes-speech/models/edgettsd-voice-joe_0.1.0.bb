# nooelint: oelint.var.mandatoryvar.HOMEPAGE - the voice lies in the tree that this layer lies in
SUMMARY = "The built-in English voice of edgettsd"
DESCRIPTION = "A small model of the same architecture as Qwen3-TTS, made by tools of edgettsd's own tree and kept \
there: nothing is downloaded. It needs a few MB and no accelerator."
SECTION = "multimedia"
# The lexicon is made from the CMU Pronouncing Dictionary.
LICENSE = "Apache-2.0 & BSD-2-Clause"
LIC_FILES_CHKSUM = "\
    file://LICENSE;md5=3b83ef96387f14655fc854ddc3c6bd57 \
    file://edgettsd/voice/CMUDICT-LICENSE;md5=9461bd113012f497ef5a0987ab6db68c \
"

require recipes-speech/edgettsd/edgettsd-source.inc

inherit edgetts_model

EDGETTS_MODEL_NAME = "joe"
EDGETTS_MODEL_SOURCE = "${@edgettsd_voice_folder(d)}"

# The folder of the tree that has a manifest: the voice's own, or one below it.
def edgettsd_voice_folder(d):
    import glob
    top = d.getVar("S") + "/edgettsd/voice"
    found = sorted(glob.glob(top + "/manifest.json") + glob.glob(top + "/*/manifest.json"))
    return os.path.dirname(found[0]) if found else top
