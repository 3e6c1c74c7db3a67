# The tasks of a recipe, in their order.
addtask fetch
addtask unpack after do_fetch
addtask configure after do_unpack
addtask compile after do_configure
addtask install after do_compile
addtask build after do_install

OE_EXTRA_IMPORTS ?= ""
inherit logging

do_fetch() {
    :
}
do_unpack() {
    :
}
do_configure() {
    :
}
do_compile() {
    :
}
do_install() {
    :
}
do_build() {
    :
}
