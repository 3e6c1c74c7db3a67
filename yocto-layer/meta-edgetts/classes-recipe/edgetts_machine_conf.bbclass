# EDGETTS_MACHINE_TOML: the drop-in for edgettsd that the EDGETTS_* variables describe, lines joined by "\n".
# A value that the daemon would refuse is refused here, while the image is built.

def edgetts_machine_toml(d):
    import re
    cpus = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
    words = re.compile(r"cpu|gpu|auto")
    library = re.compile(r"/[\w./+-]+/libLiteRt\w*Accelerator\.so")
    number = re.compile(r"\d+")
    name = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
    rules = (
        ("cpus_generator", "EDGETTS_CPUS_GENERATOR", cpus, 'a CPU list such as "0-1,3"', True),
        ("cpus_decoder", "EDGETTS_CPUS_DECODER", cpus, 'a CPU list such as "0-1,3"', True),
        ("cpus_playout", "EDGETTS_CPUS_PLAYOUT", cpus, 'a CPU list such as "0-1,3"', True),
        ("decoder_accelerator", "EDGETTS_DECODER_ACCELERATOR", words, "cpu, gpu or auto", True),
        ("decoder_library", "EDGETTS_DECODER_LIBRARY", library, "the path of a libLiteRt...Accelerator.so", True),
        ("n_gpu_layers", "EDGETTS_GPU_LAYERS", number, "a number of layers", False),
    )
    lines = ["# Made by edgettsd-conf for %s." % d.getVar("MACHINE"), "[engine]"]
    for key, variable, pattern, allowed, quoted in rules:
        value = (d.getVar(variable) or "").strip()
        if not value:
            continue
        if not pattern.fullmatch(value):
            bb.fatal('%s = "%s": must be %s' % (variable, value, allowed))
        lines.append('%s = "%s"' % (key, value) if quoted else "%s = %s" % (key, value))
    model = (d.getVar("EDGETTS_MODEL") or "").strip()
    if not name.fullmatch(model):
        bb.fatal('EDGETTS_MODEL = "%s": must be the name of a model folder' % model)
    lines += ["[model]", 'path = "%s/edgettsd/models/%s"' % (d.getVar("datadir"), model)]
    return "\\n".join(lines) + "\\n"

EDGETTS_MACHINE_TOML = "${@edgetts_machine_toml(d)}"
