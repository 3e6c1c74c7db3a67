"""The aarch64 build pins what the product pins, and its scripts are sound as far as a look can tell."""

from __future__ import annotations

import configparser
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CROSS = ROOT / "tools" / "cross"


def locked() -> dict[str, tuple[str, str]]:
    """Package: version and digest of tools/cross/aarch64.lock."""
    entries = {}
    for line in (CROSS / "aarch64.lock").read_text().splitlines():
        if not line.startswith("#"):
            file, digest = line.split()
            name, version = re.match(r"(.+?)-(\d[\d.]*\d)", file).groups()  # type: ignore[union-attr]
            entries[name.replace("_", "-")] = version, digest
    return entries


def test_versions_are_those_of_the_other_builds() -> None:
    lock = (ROOT / "tools" / "requirements.lock").read_text()
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)$", lock, re.M))
    assert set(locked()) == {"llama-cpp-python", "ai-edge-litert", "numpy", "dbus-fast", "hypothesis"}
    for name, (version, digest) in locked().items():
        assert pins[name] == version, name
        assert re.fullmatch("[0-9a-f]{64}", digest), name


def test_the_layer_and_the_cross_build_fetch_the_same_files() -> None:
    recipes = ROOT / "yocto-layer/meta-edgetts/recipes-support"
    for name, recipe in (("llama-cpp-python", "llama-cpp"), ("ai-edge-litert", "litert")):
        (path,) = (recipes / recipe).glob("*.bb")
        assert f'SRC_URI[sha256sum] = "{locked()[name][1]}"' in path.read_text()


def test_every_file_that_the_script_names_is_locked() -> None:
    lock = (CROSS / "aarch64.lock").read_text()
    named = re.findall(r"[\w.]+-\d[\w.-]*\.(?:whl|tar\.gz)\b", (CROSS / "build-aarch64").read_text())
    assert named
    for file in named:
        assert f"\n{file} " in lock, file


@pytest.mark.parametrize("name", ["build-aarch64", "check-aarch64", "run-aarch64"])
def test_scripts_parse_and_may_be_run(name: str) -> None:
    script = CROSS / name
    assert script.stat().st_mode & 0o111
    done = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_cross_file_uses_the_sysroot_to_compile_and_to_link() -> None:
    file = configparser.ConfigParser(interpolation=None)
    file.read(CROSS / "aarch64.ini")
    for key in ("c_args", "c_link_args"):
        assert file["built-in options"][key] == "['--sysroot=' + sysroot]"
    assert file["host_machine"]["cpu_family"] == "'aarch64'"


def test_the_check_runs_tests_that_exist_and_ci_runs_the_check() -> None:
    check = (CROSS / "check-aarch64").read_text()
    names = re.search(r"(?m)^CORE=\((.*)\)$", check)
    assert names
    for name in names[1].split():
        assert (ROOT / "tests/unit" / f"test_{name}.py").is_file(), name
    assert "tools/cross/check-aarch64" in (ROOT / ".ci" / "run").read_text()
