IMAGE_FEATURES ?= ""
IMAGE_INSTALL ?= "packagegroup-core-boot"
