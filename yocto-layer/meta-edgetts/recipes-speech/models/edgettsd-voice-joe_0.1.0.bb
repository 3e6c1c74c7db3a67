# nooelint: oelint.var.mandatoryvar.HOMEPAGE - the voice lies in the tree that this layer lies in
SUMMARY = "The built-in English voice of edgettsd"
DESCRIPTION = "A small model of the same architecture as Qwen3-TTS, made by tools of edgettsd's own tree and kept \
there: nothing is downloaded. It needs a few MB and no accelerator."
SECTION = "multimedia"
LICENSE = "Apache-2.0"
LIC_FILES_CHKSUM = "file://LICENSE;md5=3b83ef96387f14655fc854ddc3c6bd57"

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
