# A model bundle for edgettsd: an archive with manifest.json at its top, unpacked into the models folder.
#
# A recipe sets SRC_URI (with its sha256sum), LICENSE, LIC_FILES_CHKSUM, S, EDGETTS_MODEL_NAME and
# EDGETTS_MODEL_SHA256, or for a bundle that lies in a source tree EDGETTS_MODEL_SOURCE. Nothing is compiled, and
# one package serves every machine.

inherit allarch

EDGETTS_MODEL_NAME ?= "${BPN}"
# Folder with manifest.json.
EDGETTS_MODEL_SOURCE ?= "${S}"
EDGETTS_MODEL_DIR = "${datadir}/edgettsd/models/${EDGETTS_MODEL_NAME}"

# Name of the variable that holds the sha256 of an archive on the site's mirror; a recipe whose mirror or digest the
# site has not stated is skipped, and says so only where something asks for it. Empty: nothing is fetched from there.
EDGETTS_MODEL_SHA256 ?= ""

python () {
    import re
    variable = d.getVar("EDGETTS_MODEL_SHA256")
    if variable and not d.getVar("EDGETTS_MODEL_MIRROR"):
        raise bb.parse.SkipRecipe("set EDGETTS_MODEL_MIRROR to where the site keeps model bundles")
    if variable and not re.fullmatch("[0-9a-f]{64}", d.getVar(variable) or ""):
        raise bb.parse.SkipRecipe("set %s to the sha256 of %s" % (variable, d.getVar("SRC_URI").split(";")[0]))
}

INHIBIT_DEFAULT_DEPS = "1"
do_configure[noexec] = "1"
do_compile[noexec] = "1"

do_install() {
    if [ ! -f ${EDGETTS_MODEL_SOURCE}/manifest.json ]; then
        bbfatal "${PN}: ${EDGETTS_MODEL_SOURCE} has no manifest.json; a bundle made by tools/convert has one at its top"
    fi
    install -d ${D}${EDGETTS_MODEL_DIR}
    for file in ${EDGETTS_MODEL_SOURCE}/*; do
        case "$file" in
        *.py | *.pyi) ;;
        *)
            if [ -f "$file" ]; then
                install -m 0644 "$file" ${D}${EDGETTS_MODEL_DIR}
            fi
            ;;
        esac
    done
}

FILES:${PN} = "${EDGETTS_MODEL_DIR}"
# Weights are data: nothing in them is to be stripped, split or searched for dependencies.
INHIBIT_PACKAGE_STRIP = "1"
INHIBIT_SYSROOT_STRIP = "1"
INHIBIT_PACKAGE_DEBUG_SPLIT = "1"
