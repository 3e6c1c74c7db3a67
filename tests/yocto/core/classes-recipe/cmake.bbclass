# The variables that recipes extend.
EXTRA_OECMAKE ?= ""
