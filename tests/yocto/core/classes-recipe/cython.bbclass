DEPENDS:append = " python3-cython-native"
