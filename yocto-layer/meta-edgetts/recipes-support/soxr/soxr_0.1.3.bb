SUMMARY = "Library that converts sample rates"
DESCRIPTION = "The SoX resampler: 24 kHz speech to the rate of the sound device."
HOMEPAGE = "https://sourceforge.net/projects/soxr/"
SECTION = "libs"
LICENSE = "LGPL-2.1-or-later"
LIC_FILES_CHKSUM = "file://COPYING.LGPL;md5=8c2e1ec1540fb3e0beb68361344cba7e"

SRC_URI = "${SOURCEFORGE_MIRROR}/soxr/soxr-${PV}-Source.tar.xz"
SRC_URI[sha256sum] = "b111c15fdc8c029989330ff559184198c161100a59312f5dc19ddeb9b5a15889"

S = "${UNPACKDIR}/soxr-${PV}-Source"

inherit cmake pkgconfig

EXTRA_OECMAKE += "\
    -DBUILD_EXAMPLES=OFF \
    -DBUILD_TESTS=OFF \
    -DCMAKE_POLICY_VERSION_MINIMUM=3.5 \
    -DWITH_LSR_BINDINGS=OFF \
    -DWITH_OPENMP=OFF \
"
