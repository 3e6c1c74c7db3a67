# nooelint: oelint.var.mandatoryvar.HOMEPAGE - the source is the tree that this layer lies in
SUMMARY = "Configuration of the text-to-speech daemon"
DESCRIPTION = "The site's edgettsd.toml, and a drop-in with the machine's CPU sets and model. A site \
supplies its own edgettsd.toml by a bbappend; the one here only states the defaults."
SECTION = "multimedia"
LICENSE = "Apache-2.0"
LIC_FILES_CHKSUM = "file://${COMMON_LICENSE_DIR}/Apache-2.0;md5=89aea4e17d99a7cacdbeed46a0096b10"

SRC_URI = "file://edgettsd.toml"

S = "${UNPACKDIR}"

inherit edgetts_machine_conf

PACKAGE_ARCH = "${MACHINE_ARCH}"
INHIBIT_DEFAULT_DEPS = "1"
do_configure[noexec] = "1"
do_compile[noexec] = "1"

do_install() {
    if grep -q "^# meta-edgetts default" ${UNPACKDIR}/edgettsd.toml; then
        bbwarn "edgettsd-conf: the site has not supplied its own edgettsd.toml; the defaults of meta-edgetts \
are used. Add edgettsd-conf_%.bbappend with FILESEXTRAPATHS and your file (see README.md of the layer)."
    fi
    install -d ${D}${sysconfdir}/edgettsd/edgettsd.toml.d
    install -m 0644 ${UNPACKDIR}/edgettsd.toml ${D}${sysconfdir}/edgettsd/edgettsd.toml
    printf '%b' '${EDGETTS_MACHINE_TOML}' > ${D}${sysconfdir}/edgettsd/edgettsd.toml.d/10-machine.toml
    chmod 0644 ${D}${sysconfdir}/edgettsd/edgettsd.toml.d/10-machine.toml
}

CONFFILES:${PN} = "${sysconfdir}/edgettsd/edgettsd.toml"
