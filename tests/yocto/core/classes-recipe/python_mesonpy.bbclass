EXTRA_OEMESON ?= ""
PEP517_BUILD_OPTS = "-Cbuilddir=${B}"

python_mesonpy_do_install() {
    :
}

EXPORT_FUNCTIONS do_install
