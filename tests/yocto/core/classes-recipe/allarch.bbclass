# Package architecture of data.
PACKAGE_ARCH = "all"
