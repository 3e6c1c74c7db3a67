"""The Yocto layer: parsed by BitBake, do_install of pure-file recipes run, linted, kas files validated."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import kas
import pytest
import system_files
import yaml
from yocto_modules import CORE_MODULES, PACKAGE_OF, imported

import edgettsd
from edgettsd import config

ROOT = Path(__file__).resolve().parents[2]
LAYER = ROOT / "yocto-layer" / "meta-edgetts"
PARSE = ROOT / "tests" / "yocto" / "parse.py"
DIGEST = "ab" * 32
SITE = f"""
EDGETTS_MODEL_MIRROR = "https://mirror.invalid/edgetts"
QWEN3_TTS_SHA256 = "{DIGEST}"
"""
RECIPES = {
    "edgetts-demo-image",
    "edgettsd",
    "edgettsd-conf",
    "edgettsd-voice-joe",
    "litert",
    "llama-cpp",
    "packagegroup-edgetts",
    "qwen3-tts-0.6b-customvoice",
    "soxr",
}


def bitbake(
    folder: Path, *args: str, layer: Path = LAYER, settings: str = SITE
) -> subprocess.CompletedProcess[str]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.conf").write_text(settings)
    argv = [sys.executable, str(PARSE), str(folder), str(layer), "--settings", str(folder / "settings.conf")]
    return subprocess.run([*argv, *args], capture_output=True, text=True, timeout=120, check=False)


def parse(folder: Path, *args: str, layer: Path = LAYER, settings: str = SITE) -> dict[str, dict[str, Any]]:
    done = bitbake(folder, *args, layer=layer, settings=settings)
    assert done.returncode == 0, done.stderr
    recipes: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return recipes


def image(folder: Path, recipe: str) -> Path:
    return folder / "tmp" / "work" / recipe / "image"


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return parse(tmp_path_factory.mktemp("bitbake"))


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """A copy of the layer that a test may break."""
    copy = tmp_path / "meta-edgetts"
    shutil.copytree(LAYER, copy)
    # The daemon's recipe asks git which commit the layer is of.
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    identity = ["-c", "user.name=x", "-c", "user.email=x@x.invalid"]
    subprocess.run(
        ["git", *identity, "-C", str(tmp_path), "commit", "-q", "--allow-empty", "-m", "x"], check=True
    )
    return copy


def pinned(package: str) -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (found,) = (entry for entry in project["dependencies"] if entry.startswith(package + "=="))
    return str(found).split("==")[1]


def test_every_recipe_parses(layer: dict[str, dict[str, Any]]) -> None:
    assert set(layer) - {"layer.conf"} == RECIPES
    assert not [name for name, recipe in layer.items() if "skipped" in recipe]


def test_layer_names_its_series_and_what_it_needs(layer: dict[str, dict[str, Any]]) -> None:
    conf = layer["layer.conf"]
    assert conf["LAYERSERIES_COMPAT_edgetts"] == "wrynose"
    assert conf["LAYERDEPENDS_edgetts"].split() == ["core", "openembedded-layer", "meta-python"]


@pytest.mark.parametrize("recipe", sorted(RECIPES - {"edgetts-demo-image", "packagegroup-edgetts"}))
def test_sources_are_pinned(layer: dict[str, dict[str, Any]], recipe: str) -> None:
    values = layer[recipe]
    uris = values["SRC_URI"].split()
    assert uris
    for uri in uris:
        if uri.startswith("https://"):
            assert re.fullmatch("[0-9a-f]{64}", values["SRC_URI[sha256sum]"]), uri
        elif uri.startswith("git://"):
            assert re.fullmatch("[0-9a-f]{40}", values["SRCREV"]), uri
        else:
            assert uri.startswith("file://"), uri
    assert values["LICENSE"]
    assert "md5=" in values["LIC_FILES_CHKSUM"]


def test_the_daemon_recipe_is_of_this_tree(layer: dict[str, dict[str, Any]]) -> None:
    values = layer["edgettsd"]
    assert values["PV"] == edgettsd.__version__
    md5 = hashlib.md5((ROOT / "LICENSE").read_bytes(), usedforsecurity=False).hexdigest()
    assert values["LIC_FILES_CHKSUM"] == f"file://LICENSE;md5={md5}"
    head = subprocess.check_output(["git", "-C", str(ROOT), "rev-parse", "HEAD"], text=True).strip()
    assert values["SRCREV"] == head
    assert values["SRC_URI"].startswith(f"git://{ROOT};")


def test_the_daemon_recipe_uses_the_systems_libraries(layer: dict[str, dict[str, Any]]) -> None:
    values = layer["edgettsd"]
    assert "-Dlibs=system" in values["EXTRA_OEMESON"].split()
    assert set(values["DEPENDS"].split()) >= {"alsa-lib", "litert", "llama-cpp", "soxr"}
    assert {"python_mesonpy", "cython", "pkgconfig", "systemd", "useradd"} <= set(values["inherits"])


def test_the_daemon_recipe_agrees_with_the_system_files(layer: dict[str, dict[str, Any]]) -> None:
    values = layer["edgettsd"]
    unit = values["SYSTEMD_SERVICE:edgettsd"]
    assert (ROOT / "systemd" / f"{unit}.in").is_file()
    user = re.search(r"^u!? (\S+)", (ROOT / "systemd" / "edgettsd.sysusers").read_text(), re.M)
    assert user is not None
    assert values["USERADD_PARAM:edgettsd"].split()[-1] == user[1]
    assert "--groups audio" in values["USERADD_PARAM:edgettsd"]
    assert {"edgettsd", "edgettsctl", "edgettsd-kernels", "edgettsd-python"} <= set(
        values["PACKAGES"].split()
    )


def test_run_time_modules_are_all_dependencies(layer: dict[str, dict[str, Any]]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wheels = {"llama-cpp-python", "ai-edge-litert"}
    needed = {re.split(r"[=<>]", entry)[0] for entry in project["dependencies"]} - wheels
    given = layer["edgettsd"]["RDEPENDS:edgettsd-python"].split()
    standard = imported(gateway=False) & sys.stdlib_module_names
    assert {"asyncio", "xml", "hashlib"} <= standard
    assert standard - CORE_MODULES - PACKAGE_OF.keys() == set(), "in which package of OpenEmbedded is this?"
    needed |= {PACKAGE_OF[name] for name in standard if name in PACKAGE_OF}
    assert needed <= {name.removeprefix("python3-") for name in given}


def test_the_gateway_has_what_it_imports(layer: dict[str, dict[str, Any]]) -> None:
    values = layer["edgettsd"]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    needed = {re.split(r"[=<>]", entry)[0] for entry in extras["gateway"]}
    standard = imported(gateway=True) & sys.stdlib_module_names
    assert {"asyncio", "hmac", "urllib"} <= standard
    assert standard - CORE_MODULES - PACKAGE_OF.keys() == set(), "in which package of OpenEmbedded is this?"
    needed |= {PACKAGE_OF[name] for name in standard if name in PACKAGE_OF}
    own = values["RDEPENDS:edgettsd-gateway"].split()
    assert "edgettsd" in own and {"libflac", "libmp3lame", "libogg", "libopus"} <= set(own)
    given = own + values["RDEPENDS:edgettsd-python"].split()
    assert needed <= {name.removeprefix("python3-") for name in given}
    units = values["SYSTEMD_SERVICE:edgettsd-gateway"].split()
    assert units and all((ROOT / "systemd" / unit).is_file() for unit in units)
    assert values["USERADD_PARAM:edgettsd-gateway"].split()[-1] == "edgettsd-gateway"
    assert "--groups edgettsd " in values["USERADD_PARAM:edgettsd-gateway"]
    # The daemon does without all of it.
    foreign = {"aiohttp", "markdown_it"}
    assert foreign <= imported(gateway=True) and not foreign & imported(gateway=False)


def test_every_system_file_belongs_to_a_package(layer: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    """BitBake refuses files that are installed and not shipped."""
    system_files.install(tmp_path / "image", tmp_path)
    values = layer["edgettsd"]
    shipped = [
        f"{entry.rstrip('/')}"
        for name in values["PACKAGES"].split()
        for entry in values.get(f"FILES:{name}", "").split()
    ]
    for path in (tmp_path / "image").rglob("*"):
        name = "/" + str(path.relative_to(tmp_path / "image"))
        # The daemon's configuration is another recipe's.
        if path.is_file() and name != "/etc/edgettsd/edgettsd.toml":
            assert any(name == entry or name.startswith(entry + "/") for entry in shipped), name


def test_llama_cpp_is_the_one_of_the_wheel(layer: dict[str, dict[str, Any]]) -> None:
    values = layer["llama-cpp"]
    assert values["LLAMA_CPP_PYTHON"] == pinned("llama-cpp-python")
    assert values["SRC_URI"].split()[0].endswith(f"/llama_cpp_python-{pinned('llama-cpp-python')}.tar.gz")
    assert values["S"].endswith(f"llama_cpp_python-{pinned('llama-cpp-python')}/vendor/llama.cpp")
    import llama_cpp

    libraries = Path(llama_cpp.__file__).parent / "lib"
    assert (libraries / f"libllama.so.{values['PV']}").exists()
    ggml = re.search(r"ggml (\d+\.\d+\.\d+)", values["DESCRIPTION"])
    assert ggml is not None
    assert (libraries / f"libggml.so.{ggml[1]}").exists()


def test_llama_cpp_chooses_the_cpu_code_at_run_time(layer: dict[str, dict[str, Any]]) -> None:
    values = layer["llama-cpp"]
    options = values["EXTRA_OECMAKE"].split()
    for option in ("GGML_NATIVE=OFF", "GGML_BACKEND_DL=ON", "GGML_CPU_ALL_VARIANTS=ON"):
        assert f"-D{option}" in options
    # Where the kernels look: see cython_kernels/kernels/et_ggml_cpu.c.
    assert "-DGGML_BACKEND_DIR=/usr/lib/ggml" in options
    assert {"cuda", "vulkan"} <= set(values["PACKAGECONFIG[flags]"])


def test_litert_is_the_pinned_version(layer: dict[str, dict[str, Any]]) -> None:
    values = layer["litert"]
    assert values["PV"] == pinned("ai-edge-litert")
    uri = values["SRC_URI"].split()[0]
    assert f"/ai_edge_litert-{values['PV']}-cp311-cp311-manylinux_2_27_aarch64.whl;" in uri


def test_litert_installs_the_two_libraries(tmp_path: Path) -> None:
    sources = tmp_path / "tmp/work/litert/sources/litert/ai_edge_litert"
    sources.mkdir(parents=True)
    for name in ("libLiteRt.so", "libLiteRtWebGpuAccelerator.so", "interpreter.py"):
        (sources / name).write_bytes(b"x")
    output = parse(tmp_path, "--run", "litert", "do_install")["litert"]["output"]
    assert output.endswith("done"), output
    files = {str(p.relative_to(image(tmp_path, "litert"))) for p in image(tmp_path, "litert").rglob("*.*")}
    assert files == {"usr/lib/libLiteRt.so", "usr/lib/libLiteRtWebGpuAccelerator.so"}


def test_default_configuration_warns(tmp_path: Path) -> None:
    output = parse(tmp_path, "--run", "edgettsd-conf", "do_install")["edgettsd-conf"]["output"]
    assert "WARNING: edgettsd-conf: the site has not supplied its own edgettsd.toml" in output


def test_configuration_of_the_site_does_not_warn(tmp_path: Path, changed: Path) -> None:
    own = '[audio]\ndevice = "hw:0"\n'
    (changed / "recipes-speech/edgettsd/files/edgettsd.toml").write_text(own)
    build = tmp_path / "build"
    output = parse(build, "--run", "edgettsd-conf", "do_install", layer=changed)["edgettsd-conf"]["output"]
    assert "WARNING" not in output
    assert (image(build, "edgettsd-conf") / "etc/edgettsd/edgettsd.toml").read_text() == own


@pytest.mark.parametrize(
    ("machine", "generator", "decoder"),
    [
        ("raspberrypi5", (0, 1, 2), (3,)),
        ("rk3588", (4, 5), (6, 7)),
        ("jetson-orin-nano", (0, 1, 2), (4, 5)),
    ],
)
def test_machines_place_the_stages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str, generator: object, decoder: object
) -> None:
    settings = SITE + f"require conf/machine/include/edgetts-{machine}.inc\n"
    recipes = parse(tmp_path, "--run", "edgettsd-conf", "do_install", settings=settings)
    assert recipes["edgettsd-conf"]["output"].endswith("done")
    installed = image(tmp_path, "edgettsd-conf") / "etc/edgettsd/edgettsd.toml"
    monkeypatch.setattr(config, "DEFAULT_PATH", installed)
    # The daemon itself reads what was installed.
    loaded = config.load()
    assert loaded.engine.cpus_generator == generator
    assert loaded.engine.cpus_decoder == decoder
    assert not set(loaded.engine.cpus_playout) & set(loaded.engine.cpus_generator)
    assert loaded.model.path == "/usr/share/edgettsd/models/joe"


@pytest.mark.parametrize(
    ("setting", "allowed"),
    [
        ('EDGETTS_CPUS_DECODER = "big"', "must be a CPU list"),
        ('EDGETTS_CPUS_DECODER = "1-"', "must be a CPU list"),
        ('EDGETTS_DECODER_ACCELERATOR = "npu"', "must be cpu, gpu or auto"),
        ('EDGETTS_DECODER_LIBRARY = "libMali.so"', "must be the path of a libLiteRt"),
        ('EDGETTS_GPU_LAYERS = "all"', "must be a number of layers"),
        ('EDGETTS_MODEL = "../x"', "must be the name of a model folder"),
    ],
)
def test_bad_placement_stops_the_build(tmp_path: Path, setting: str, allowed: str) -> None:
    done = bitbake(tmp_path, settings=SITE + setting + "\n")
    assert done.returncode != 0
    assert allowed in done.stderr
    assert setting.split(" = ")[0] in done.stderr


BUNDLE = {"manifest.json": b"{}", "talker.gguf": b"\0weights", "LICENSE": b"Apache-2.0"}


def made(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True)
    for file, data in files.items():
        (folder / file).write_bytes(data)


def test_models_are_installed_as_they_are(tmp_path: Path) -> None:
    recipe = "qwen3-tts-0.6b-customvoice"
    made(tmp_path / "tmp/work" / recipe / "sources/bundle", BUNDLE)
    values = parse(tmp_path, "--run", recipe, "do_install")[recipe]
    assert values["output"].endswith("done"), values["output"]
    folder = image(tmp_path, recipe) / "usr/share/edgettsd/models" / recipe
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == BUNDLE
    assert values["PACKAGE_ARCH"] == "all"


@pytest.mark.parametrize("place", ["edgettsd/voice", "edgettsd/voice/joe"])
def test_the_built_in_voice_comes_from_the_daemons_tree(tmp_path: Path, place: str) -> None:
    recipe = "edgettsd-voice-joe"
    source = tmp_path / "tmp/work" / recipe / "sources" / f"{recipe}-{edgettsd.__version__}"
    made(source / place, BUNDLE | {"__init__.py": b"", "build.pyi": b""})
    # Without a mirror: nothing is downloaded.
    recipes = parse(tmp_path, "--run", recipe, "do_install", settings="")
    values = recipes[recipe]
    assert values["output"].endswith("done"), values["output"]
    folder = image(tmp_path, recipe) / "usr/share/edgettsd/models/joe"
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == BUNDLE
    assert values["PACKAGE_ARCH"] == "all"
    for name in ("SRC_URI", "SRCREV", "PV"):
        assert values[name] == recipes["edgettsd"][name], name
    # What speaks unless the site says otherwise.
    assert recipes["edgettsd-conf"]["EDGETTS_MACHINE_TOML"].count("/usr/share/edgettsd/models/joe") == 1


def test_the_built_in_voice_states_every_licence_of_what_is_in_it(layer: dict[str, dict[str, Any]]) -> None:
    """Its lexicon is made from CMUdict, whose licence lies beside it; the whole is under the tree's."""
    values = layer["edgettsd-voice-joe"]
    assert values["LICENSE"].split(" & ") == ["Apache-2.0", "BSD-2-Clause"]
    stated = dict(entry.split(";md5=") for entry in values["LIC_FILES_CHKSUM"].split())
    beside = [path.relative_to(ROOT) for path in (ROOT / "edgettsd/voice").glob("*LICENSE*")]
    assert beside
    assert stated.keys() == {"file://LICENSE", *(f"file://{path}" for path in beside)}
    for uri, digest in stated.items():
        data = (ROOT / uri.removeprefix("file://")).read_bytes()
        assert hashlib.md5(data, usedforsecurity=False).hexdigest() == digest, uri


def test_the_wheel_states_the_licence_of_its_voice_too() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == "Apache-2.0 AND BSD-2-Clause"
    assert set(project["license-files"]) == {"LICENSE", "edgettsd/voice/CMUDICT-LICENSE"}


def test_a_tree_without_a_voice_is_told(tmp_path: Path) -> None:
    recipe = "edgettsd-voice-joe"
    made(tmp_path / "tmp/work" / recipe / "sources" / f"{recipe}-{edgettsd.__version__}/edgettsd/voice", {})
    output = parse(tmp_path, "--run", recipe, "do_install")[recipe]["output"]
    assert "edgettsd/voice has no manifest.json" in output
    assert not output.endswith("done")


def test_the_daemons_package_does_not_hold_the_voice_too(tmp_path: Path) -> None:
    """Weights of the voice once an image; what is code stays."""
    packages = image(tmp_path, "edgettsd") / "usr/lib/python3.14/site-packages/edgettsd"
    made(packages / "voice", BUNDLE | {"__init__.py": b"", "build.pyi": b""})
    made(packages / "voice/joe", BUNDLE)
    (packages / "bus.xml").write_bytes(b"x")
    output = parse(tmp_path, "--run", "edgettsd", "edgettsd_leave_voice_out")["edgettsd"]["output"]
    assert output.endswith("done"), output
    left = {str(file.relative_to(packages)) for file in packages.rglob("*")}
    assert left == {"bus.xml", "voice", "voice/__init__.py", "voice/build.pyi"}


def test_archive_without_a_manifest_is_refused(tmp_path: Path) -> None:
    recipe = "qwen3-tts-0.6b-customvoice"
    (tmp_path / "tmp/work" / recipe / "sources/bundle").mkdir(parents=True)
    output = parse(tmp_path, "--run", recipe, "do_install")[recipe]["output"]
    assert "has no manifest.json" in output
    assert not output.endswith("done")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ("", "set EDGETTS_MODEL_MIRROR"),
        ('EDGETTS_MODEL_MIRROR = "https://mirror.invalid"', "set QWEN3_TTS_SHA256 to the sha256 of"),
        (
            'EDGETTS_MODEL_MIRROR = "https://mirror.invalid"\nQWEN3_TTS_SHA256 = "12"',
            "set QWEN3_TTS_SHA256 to the sha256 of",
        ),
    ],
)
def test_models_that_the_site_has_not_stated_are_skipped(tmp_path: Path, settings: str, why: str) -> None:
    assert why in parse(tmp_path, settings=settings)["qwen3-tts-0.6b-customvoice"]["skipped"]


def test_layer_outside_of_git_says_what_to_set(tmp_path: Path) -> None:
    shutil.copytree(LAYER, tmp_path / "meta-edgetts")
    recipes = parse(tmp_path / "build", layer=tmp_path / "meta-edgetts")
    assert "set EDGETTSD_REPOSITORY and EDGETTSD_SRCREV" in recipes["edgettsd"]["skipped"]


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("recipes-support/soxr/soxr_0.1.3.bb", "inherit cmake pkgconfig", "inherit cmake no-such-class"),
        ("recipes-support/litert/litert_2.3.0.bb", "do_install() {", "do_install( {"),
        ("recipes-speech/edgettsd/edgettsd_0.1.0.bb", "do_install:append()", "do_install_append()"),
        ("conf/layer.conf", '= "wrynose"', '= "scarthgap"'),
    ],
)
def test_the_check_itself_finds_faults(tmp_path: Path, changed: Path, file: str, old: str, new: str) -> None:
    text = (changed / file).read_text()
    assert old in text
    (changed / file).write_text(text.replace(old, new))
    assert bitbake(tmp_path / "build", layer=changed).returncode != 0


def test_image_holds_the_daemon_and_a_voice(layer: dict[str, dict[str, Any]]) -> None:
    assert "packagegroup-edgetts" in layer["edgetts-demo-image"]["IMAGE_INSTALL"].split()
    group = set(layer["packagegroup-edgetts"]["RDEPENDS:packagegroup-edgetts"].split())
    assert {"edgettsd", "edgettsctl", "edgettsd-conf", "edgettsd-voice-joe"} <= group


def test_oelint() -> None:
    suppressed = [
        "oelint.vars.homepageping",  # needs the network
        "oelint.vars.mispell.unknown",  # the layer's own variables
        "oelint.var.filesoverride",  # packages that are split off have no FILES yet
        "oelint.var.licenseremotefile",  # models and configuration have no source archive with a licence
        "oelint.task.noanonpython",  # the only place where a recipe can be skipped
        "oelint.vars.insaneskip",  # prebuilt libraries, and plug-ins that are named like development files
    ]
    argv = ["oelint-adv", "--quiet", "--hide", "info", "--release", "wrynose", "--jobs", "1"]
    argv += [f"--suppress={rule}" for rule in suppressed]
    done = subprocess.run(
        [str(Path(sys.executable).parent / argv[0]), *argv[1:], *map(str, sorted(LAYER.rglob("*.bb")))],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout


@pytest.mark.parametrize("file", sorted((LAYER / "kas").glob("*.yml")), ids=lambda path: path.stem)
def test_kas_files(file: Path) -> None:
    schema = json.loads((Path(kas.__file__).parent / "schema-kas.json").read_text())
    content = yaml.safe_load(file.read_text())
    jsonschema.validate(content, schema)
    for include in content["header"].get("includes", []):
        assert (file.parent / include).is_file()
    for text in content["local_conf_header"].values():
        for required in re.findall(r"^require (\S+)", text, re.M):
            assert (LAYER / required).is_file()


def test_recipes_use_unpackdir() -> None:
    for path in [*LAYER.rglob("*.bb"), *LAYER.rglob("*.bbclass")]:
        assert "WORKDIR" not in path.read_text().replace("UNPACKDIR", ""), path


def test_a_boards_own_accelerator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = "/usr/lib/libLiteRtOpenClAccelerator.so"
    settings = SITE + f'EDGETTS_DECODER_ACCELERATOR = "gpu"\nEDGETTS_DECODER_LIBRARY = "{library}"\n'
    output = parse(tmp_path, "--run", "edgettsd-conf", "do_install", settings=settings)
    assert output["edgettsd-conf"]["output"].endswith("done")
    monkeypatch.setattr(
        config, "DEFAULT_PATH", image(tmp_path, "edgettsd-conf") / "etc/edgettsd/edgettsd.toml"
    )
    assert config.load().engine.decoder_library == library
