"""All C of the kernels is in one library beside the modules, so that what a file keeps exists once."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import kernel_sources

import cython_kernels

FOLDER = Path(cython_kernels.__path__[0])
LIBRARY = FOLDER / "libedgettsd-kernels.so"
BINARIES = sorted(FOLDER.glob("*.so"))


def _lines(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def _exported(file: Path) -> set[str]:
    """What others may call."""
    lines = _lines("nm", "--dynamic", "--defined-only", "--format=posix", str(file))
    return {line.split()[0].split("@")[0] for line in lines}


def _wanted(file: Path) -> set[str]:
    """What a binary calls of others."""
    lines = _lines("nm", "--dynamic", "--undefined-only", "--format=posix", str(file))
    return {line.split()[0].split("@")[0] for line in lines}


def _compiled(file: Path) -> set[str]:
    """The C files that a binary is made of, without those that Cython writes."""
    fields = [line.split() for line in _lines("readelf", "--wide", "--symbols", str(file))]
    return {f[7] for f in fields if len(f) == 8 and f[3] == "FILE" and f[7].startswith("et_")}


def test_each_source_is_in_one_binary_only() -> None:
    assert len(BINARIES) > 8
    places = defaultdict(list)
    for file in BINARIES:
        for source in _compiled(file):
            places[source].append(file.name)
    assert set(places) == {path.name for path in kernel_sources.KERNELS.glob("*/*.c")}
    assert {source: names for source, names in places.items() if len(names) != 1} == {}


def test_each_function_is_defined_in_one_binary_only() -> None:
    places = defaultdict(list)
    for file in BINARIES:
        for name in _exported(file):
            if name.startswith("et_"):
                places[name].append(file.name)
    assert len(places) > 100
    assert {name: files for name, files in places.items() if len(files) != 1} == {}


def test_the_library_exports_nothing_else() -> None:
    assert {name for name in _exported(LIBRARY) if not name.startswith("et_")} == set()


def test_the_modules_look_for_the_library_beside_them() -> None:
    users = [file for file in BINARIES if any(name.startswith("et_") for name in _wanted(file))]
    assert len(users) > 5
    assert LIBRARY not in users
    for file in users:
        said = "\n".join(_lines("readelf", "--wide", "--dynamic", str(file)))
        assert f"[{LIBRARY.name}]" in said, file.name
        assert "[$ORIGIN" in said, file.name


def test_neither_the_fake_engine_nor_the_client_loads_the_library() -> None:
    child = (
        "import edgettsd.ctl, edgettsd.daemon as daemon, edgettsd.engine.fake, edgettsd.ctl._version\n"
        "from edgettsd.config import Config\n"
        "daemon._version()\n"
        "machine = daemon._machine(Config(), 'fake')\n"
        "daemon._make_engine(Config(), ('fake', 1.0), machine[1])\n"
        "print([line for line in open('/proc/self/maps') if 'edgettsd-kernels' in line])\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", child], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
