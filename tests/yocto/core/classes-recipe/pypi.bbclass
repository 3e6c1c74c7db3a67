# As in OpenEmbedded-core: S and SECTION are assigned, SRC_URI is extended.
PYPI_PACKAGE ?= "${BPN}"
PYPI_PACKAGE_EXT ?= "tar.gz"

def pypi_src_uri(d):
    package = d.getVar("PYPI_PACKAGE")
    name = "%s-%s.%s" % (package, d.getVar("PV"), d.getVar("PYPI_PACKAGE_EXT"))
    return "https://registry.invalid/packages/source/%s/%s/%s" % (package[0], package, name)

PYPI_SRC_URI ?= "${@pypi_src_uri(d)}"
SECTION = "devel/python"
SRC_URI:prepend = "${PYPI_SRC_URI} "
S = "${UNPACKDIR}/${PYPI_PACKAGE}-${PV}"
