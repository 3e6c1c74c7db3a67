"""Every tool as people start it: from the repository's root, and from a folder that is in its way."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = sorted(
    str(path.relative_to(ROOT))
    for folder in ("tools", "tools/cross")
    for path in (ROOT / folder).iterdir()
    if path.is_file() and os.access(path, os.X_OK) and path.suffix != ".py"
)
# An interpreter that can at least be asked: training has an environment of its own.
TRAIN = {"EDGETTSD_TRAIN_PYTHON": sys.executable}


@pytest.fixture(params=["root", "elsewhere"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where the tool is started."""
    if request.param == "root":
        return ROOT
    # Names that a tool imports, and that must not be taken from here.
    for name in ("edgettsd", "edgettsd_tools", "cython_kernels", "numpy", "tools"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('taken from the wrong folder')\n")
    (tmp_path / "json.py").write_text("raise ImportError('taken from the wrong folder')\n")
    return tmp_path


def run(tool: str, place: Path, *arguments: object, status: int = 0) -> tuple[str, str]:
    """Output and messages of the tool, started in `place` without the tests' own settings."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    command = [tool if place == ROOT else str(ROOT / tool), *map(str, arguments)]
    done = subprocess.run(
        command,
        cwd=place,
        env=environment | TRAIN | {"CDPATH": f"{ROOT.parent}:{place}"},
        capture_output=True,
        text=True,
        timeout=170,
    )
    assert done.returncode == status, f"{done.stdout}\n{done.stderr}"
    return done.stdout, done.stderr


def test_the_list_of_tools_is_whole() -> None:
    assert len(TOOLS) >= 14
    assert {"tools/try", "tools/test", "tools/bench", "tools/cross/check-aarch64"} <= set(TOOLS)


def test_ci_runs_what_this_suite_does_not() -> None:
    """Its last command is the suite, whose summary then is the last that CI prints."""
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    for command in ("tools/try", "tools/fuzz", "tools/oracle", "EDGETTSD_ISA=generic tools/test"):
        assert any(command in line for line in lines), command
    commands = [line for line in lines if "tools/" in line and not line.startswith(("#", "echo"))]
    assert commands[-1] == "tools/test"


@pytest.mark.parametrize("tool", TOOLS)
def test_help_is_help_at_once(tool: str, place: Path) -> None:
    before = sorted(os.listdir(ROOT))
    said, errors = run(tool, place, "--help")
    assert Path(tool).name in said
    assert errors == "", "a set-up was begun"
    assert sorted(os.listdir(ROOT)) == before


def test_the_shortest_run_of_each(place: Path, tmp_path: Path) -> None:
    """Made, converted, measured and compared; and what they say of a checkpoint that is not there."""
    checkpoint, bundle = tmp_path / "checkpoint", tmp_path / "bundle"
    run("tools/make_checkpoint", place, "--size", "tiny", checkpoint)
    run("tools/convert", place, checkpoint, bundle, "--quiet", "--talker", "f32", "--predictor", "f32")
    assert "Raspberry Pi 5" in run("tools/boards", place, "--bundle", bundle)[0]
    options = ("--threads", "1,1", "--text", "One.", "--seconds", "0.3", "--repeats", 1, "--context", 0)
    run("tools/bench", place, "--bundle", bundle, *options, "--json", tmp_path / "bench.json")
    assert json.loads((tmp_path / "bench.json").read_text())["engine"]["runs"][0]["rtf"] > 0
    data = ROOT / "tests" / "data" / "oracle" / "custom_voice"
    assert "frames" in run("tools/parity", place, bundle, data)[0]
    missing = tmp_path / "missing"
    assert f"{missing} is not a folder" in run("tools/convert", place, missing, missing, status=1)[1]


def test_tools_that_set_up_run_from_anywhere(place: Path) -> None:
    """What they need is there, as tools/test has just seen; so they begin at once."""
    figures = json.loads(run("tools/soak", place, "--minutes", "0.02")[0].splitlines()[-1])
    assert figures["wrong"] == [] and figures["rounds"] >= 2
    assert "pytest 9" in run("tools/test", place, "--version")[0]


@pytest.mark.parametrize("name", ["a folder", "f" * 100])
def test_try_speaks_whatever_the_temporary_folder_is_called(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bus's address takes neither blanks nor long paths."""
    (tmp_path / name).mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / name))
    said = tmp_path / "said.wav"
    run("tools/try", ROOT, "--out", said, "--", "-5 degrees.")
    assert said.stat().st_size > 10_000


def test_try_says_how_to_say_what_looks_like_an_option() -> None:
    errors = run("tools/try", ROOT, "-5 degrees.", status=2)[1]
    assert "unknown option -5 degrees." in errors and "after --" in errors


@pytest.mark.parametrize("tool", ["bench", "parity"])
def test_without_the_installed_package_the_tool_says_why(tool: str, tmp_path: Path) -> None:
    """In a repository whose environment lacks edgettsd: the source folder is not taken for it."""
    for name in ("tools/lib", "cython_kernels", "edgettsd"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "tools" / tool, tmp_path / "tools")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    done = subprocess.run(
        [f"tools/{tool}", "--help"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "edgettsd is not installed in" in done.stderr and "No module named" in done.stderr
    assert "hint: run tools/try once" in done.stderr


@pytest.mark.parametrize("tool", ["convert", "make_checkpoint", "boards"])
def test_in_half_an_environment_the_tool_says_why(tool: str, tmp_path: Path) -> None:
    """As tools/try leaves it when pip is interrupted: there is an interpreter, and nothing else."""
    shutil.copytree(ROOT / "tools", tmp_path / "tools", symlinks=True)
    shutil.copytree(ROOT / "edgettsd", tmp_path / "edgettsd")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {Path(sys.executable).resolve()} -S "$@"\n')
    python.chmod(0o755)
    command, environment = [tmp_path / "tools" / tool, "--help"], {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    lacks, hint = done.stderr.splitlines()
    assert lacks == f"error: {python} lacks packages: ModuleNotFoundError: No module named 'numpy'"
    assert hint.startswith("hint: run tools/try once")


def test_an_oracle_without_its_interpreter_says_which(tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "EDGETTSD_EVAL_PYTHON": "/nowhere/python"}
    command = [ROOT / "tools" / "oracle", tmp_path, tmp_path / "out"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "/nowhere/python is missing" in done.stderr and "hint: EDGETTSD_EVAL_PYTHON" in done.stderr


def test_an_oracle_without_a_checkpoint_installs_nothing(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "tools" / "lib", tmp_path / "tools" / "lib")
    shutil.copy(ROOT / "tools" / "oracle", tmp_path / "tools")
    done = subprocess.run([tmp_path / "tools" / "oracle", "none", "out"], capture_output=True, text=True)
    assert (done.returncode, sorted(os.listdir(tmp_path))) == (2, ["tools"])
    assert "CHECKPOINT none is not a folder" in done.stderr


def _oracle(tmp_path: Path, pip: str, copied: bool = False) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """tools/oracle --prepare in a repository of its own, with `pip` in the place of the installation."""
    if not copied:
        shutil.copytree(ROOT / "tools" / "lib", tmp_path / "tools" / "lib", dirs_exist_ok=True)
        for name in ("tools/oracle", "pyproject.toml"):
            shutil.copy(ROOT / name, tmp_path / name)
    fake = tmp_path / "python"
    fake.write_text(
        "#!/bin/bash\n"
        # The venv module makes the folder with this same interpreter in it.
        'if [[ "$1 $2" == "-m venv" ]]; then mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; exit; fi\n'
        f'if [[ "$1 $2" == "-m pip" ]]; then {pip}; exit; fi\n'
        f'exec {sys.executable} "$@"\n'
    )
    fake.chmod(0o755)
    done = subprocess.run(
        [tmp_path / "tools" / "oracle", "--prepare"],
        env={"PATH": "/usr/bin:/bin", "PYTHON": str(fake)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return tmp_path / ".venv-eval", done


def test_an_interrupted_installation_of_the_official_code_is_none(tmp_path: Path) -> None:
    folder, done = _oracle(tmp_path, "kill -KILL $$")
    assert done.returncode == 1 and "FAILED" in done.stderr
    assert (folder / "bin" / "python").exists() and not (folder / ".complete").exists()
    # The next one begins anew and is whole.
    (folder / "left").touch()
    folder, done = _oracle(tmp_path, 'echo "$@" >>"${0%/*}/installed"')
    assert done.returncode == 0, done.stderr
    assert not (folder / "left").exists() and (folder / ".complete").exists()
    assert "qwen-tts==" in (folder / "bin" / "installed").read_text()
    # And then there is nothing to do, unless the pins change.
    _, done = _oracle(tmp_path, "exit 9")
    assert (done.returncode, done.stderr) == (0, "")
    setup = tmp_path / "tools" / "lib" / "setup.sh"
    setup.write_text(setup.read_text().replace("qwen-tts==0.1.1", "qwen-tts==0.1.2"))
    _, done = _oracle(tmp_path, "exit 9", copied=True)
    assert done.returncode == 1 and not (folder / ".complete").exists()
