SUMMARY = "Small image that speaks"
DESCRIPTION = "Boots to a system with edgettsd on the system bus: edgettsctl speak \"Good morning\"."
SECTION = "images"
LICENSE = "MIT"

inherit core-image

IMAGE_FEATURES += "read-only-rootfs"
IMAGE_INSTALL:append = " packagegroup-edgetts"

# The daemon's units, sysusers and journal need it.
REQUIRED_DISTRO_FEATURES = "systemd"
inherit features_check
