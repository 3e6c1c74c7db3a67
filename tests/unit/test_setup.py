"""The set-up of tools/lib: which parts of llama.cpp are compiled, and how pip is told."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIB = ROOT / "tools" / "lib"
SOURCED = "; ".join(f". {shlex.quote(str(LIB / name))}" for name in ("steps.sh", "setup.sh"))
# What llama-cpp-python's own CMakeLists.txt does around llama.cpp's.
PACKAGE = """
cmake_minimum_required(VERSION 3.21)
project(llama_cpp LANGUAGES NONE)
option(LLAMA_BUILD "" ON)
option(LLAVA_BUILD "" ON)
set(LLAMA_BUILD_COMMON ON CACHE BOOL "" FORCE)
add_subdirectory(llama)
foreach(part LLAMA_BUILD LLAVA_BUILD)
    message(STATUS "${part}=${${part}}")
endforeach()
"""
LLAMA = """
cmake_minimum_required(VERSION 3.14...3.28)
project("llama.cpp" LANGUAGES NONE)
option(LLAMA_BUILD_COMMON "" ON)
option(LLAMA_BUILD_TOOLS "" ON)
option(LLAMA_OPENSSL "" ON)
foreach(part LLAMA_BUILD_COMMON LLAMA_BUILD_TOOLS LLAMA_OPENSSL)
    message(STATUS "${part}=${${part}}")
endforeach()
"""


def test_libllama_and_ggml_alone_are_compiled(tmp_path: Path) -> None:
    (tmp_path / "llama").mkdir()
    (tmp_path / "CMakeLists.txt").write_text(PACKAGE)
    (tmp_path / "llama" / "CMakeLists.txt").write_text(LLAMA)
    found = {}
    for name, options in (
        ("plain", []),
        ("ours", [f"-DCMAKE_PROJECT_llama_cpp_INCLUDE={LIB / 'llama.cmake'}"]),
    ):
        command = ["cmake", "-S", str(tmp_path), "-B", str(tmp_path / name), *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        found[name] = dict(re.findall(r"-- (\w+)=(\w+)", done.stdout))
    assert set(found["plain"].values()) == {"ON"}
    off = {"LLAVA_BUILD", "LLAMA_BUILD_COMMON", "LLAMA_BUILD_TOOLS"}
    assert {name for name, value in found["ours"].items() if value == "OFF"} == off


@pytest.mark.parametrize("given", ["", "-DGGML_CUDA=on '-DX=a b'"])
def test_pip_is_told_so_and_what_the_user_wants_besides(given: str, tmp_path: Path) -> None:
    root = tmp_path / "a folder with 'blanks'"
    for folder in ("tools", "build/stamps", ".venv/bin"):
        (root / folder).mkdir(parents=True)
    (root / "tools" / "lib").symlink_to(LIB)
    (root / "tools" / "requirements.lock").write_text("llama-cpp-python==0.3.36\n")
    python = root / ".venv" / "bin" / "python"
    python.write_text('#!/bin/bash\n[[ $3 == --version ]] || printf "%s" "$CMAKE_ARGS" >"${0%/*}/told"\n')
    python.chmod(0o755)
    script = f"ROOT={shlex.quote(str(root))}; {SOURCED}; setup_venv"
    environment = {"PATH": "/usr/bin:/bin"} | ({"CMAKE_ARGS": given} if given else {})
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    # scikit-build-core splits it as a shell does.
    told = shlex.split((python.parent / "told").read_text())
    assert told == [
        f"-DCMAKE_PROJECT_llama_cpp_INCLUDE={root}/tools/lib/llama.cmake",
        *shlex.split(given),
    ]


def test_progress_tells_the_file_and_not_the_compilers_warnings(tmp_path: Path) -> None:
    log = tmp_path / "pip.log"
    step = "[7/83] ccache /usr/bin/g++ -O3 -o ggml.dir/opt.o -c /tmp/llama.cpp/ggml/src/ggml-opt.cpp"
    warning = [
        "In file included from /tmp/llama.cpp/ggml/src/ggml-impl.h:5,",
        "                 from /tmp/llama.cpp/ggml/src/ggml-opt.cpp:3:",
        "/tmp/ggml-opt.cpp: In function 'void f(int)':",
        "/tmp/ggml-opt.cpp:12:8: warning: unused variable 'x' [-Wunused]",
        "   12 |    int x;",
        "      |        ^",
        "/tmp/ggml-opt.cpp:11:1: note: declared here",
    ]
    log.write_text("".join(f"  {line}\n" for line in [step, *warning]))
    script = f"ROOT={shlex.quote(str(tmp_path))}; {SOURCED}; last_line {shlex.quote(str(log))} 100"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[7/83] ggml-opt.cpp\n", "")
