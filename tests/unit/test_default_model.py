"""Which model speaks where none is configured."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import model_files
import pytest

from edgettsd import __version__, daemon
from edgettsd.config import Config
from edgettsd.ctl import _version
from edgettsd.ctl._doctor import FAIL, OK, check_model
from edgettsd.errors import ModelInvalidError
from edgettsd.models import default
from edgettsd.models.store import open_bundle

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def usual(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The usual folder, which is not there."""
    monkeypatch.setattr(default, "USUAL", tmp_path / "usual")
    return tmp_path / "usual"


@pytest.fixture
def built_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The built-in voice's folder, which is not there."""
    monkeypatch.setattr(default, "BUILT_IN", tmp_path / "voice")
    return tmp_path / "voice"


def fill(folder: Path, name: str = "ann") -> Path:
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"name": name}))
    return folder


def chosen(config: Config | None = None) -> str:
    return default.with_model(config or Config()).model.path


def test_the_voice_inside_the_package_speaks(usual: Path, built_in: Path) -> None:
    assert chosen() == str(usual), "without it the usual folder is named"
    fill(built_in)
    assert chosen() == str(built_in)
    assert default.origin(default.with_model(Config())) == f"{built_in} (the built-in voice)"


def test_the_usual_folder_wins(usual: Path, built_in: Path) -> None:
    fill(built_in)
    usual.symlink_to("nowhere")
    assert chosen() == str(usual), "a broken link is told, not passed over"
    usual.unlink()
    fill(usual)
    assert chosen() == str(usual)
    assert default.origin(default.with_model(Config())) == str(usual)


@contextlib.contextmanager
def closed(folder: Path) -> Iterator[None]:
    """Nobody may look into the folder; root, who may always, is somebody else meanwhile."""
    user = os.geteuid()
    folder.chmod(0)
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        folder.chmod(0o755)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that every user can reach, unlike tmp_path."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_usual_folder_that_cannot_be_looked_at_is_told(
    public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = public / "models"
    models.mkdir()
    monkeypatch.setattr(default, "USUAL", models / "default")
    monkeypatch.setattr(default, "BUILT_IN", fill(public / "voice"))
    with closed(models):
        assert chosen() == str(models / "default"), "not passed over either"
        with pytest.raises(
            ModelInvalidError, match=f"cannot read {models}/default/manifest.json: Permission denied"
        ):
            open_bundle(chosen())
    assert chosen() == str(public / "voice")


def test_a_voice_inside_that_cannot_be_looked_at_is_told(
    public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    voice = fill(public / "voice")
    monkeypatch.setattr(default, "USUAL", public / "usual")
    monkeypatch.setattr(default, "BUILT_IN", voice)
    with closed(voice):
        assert chosen() == str(voice)
        with pytest.raises(ModelInvalidError, match=f"cannot read {voice}/manifest.json: Permission denied"):
            open_bundle(chosen())
        assert default.built_in_name() == ""


def test_a_configured_folder_wins_also_when_it_is_missing(usual: Path, built_in: Path) -> None:
    fill(usual)
    fill(built_in)
    assert chosen(Config().updated({"model": {"path": "/x"}}, "test")) == "/x"


def test_the_package_looks_beside_itself() -> None:
    assert Path(default.__file__).absolute().parents[1] / "voice" == default.BUILT_IN
    assert Path("/var/lib/edgettsd/models/default") == default.USUAL


@pytest.mark.parametrize("manifest", [None, "{", "[]", "{}", "\xff"])
def test_a_voice_that_cannot_be_named_is_not(built_in: Path, manifest: str | None) -> None:
    if manifest is not None:
        built_in.mkdir()
        (built_in / "manifest.json").write_text(manifest, encoding="latin-1")
    assert default.built_in_name() == ""


def test_the_version_names_it(
    usual: Path, built_in: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def printed() -> str:
        with pytest.raises(SystemExit):
            daemon.main(["--version"])
        return capsys.readouterr().out

    def listed() -> str:
        class Options:
            verbose = True

        asyncio.run(_version.run(Options()))  # type: ignore[arg-type]
        return capsys.readouterr().out

    assert printed() == f"edgettsd {__version__}\n"
    assert "built-in voice:    none\n" in listed()
    fill(built_in)
    assert printed() == f"edgettsd {__version__} (built-in voice ann)\n"
    assert "built-in voice:    ann\n" in listed()


def test_the_doctor_looks_where_the_daemon_does(usual: Path, built_in: Path) -> None:
    missing = check_model(Config())
    assert missing.level == FAIL and str(usual) in missing.text
    fill(built_in)
    refused = check_model(Config())
    assert refused.level == FAIL and str(built_in) in refused.text
    usual.symlink_to(model_files.bundle())
    found = check_model(Config())
    assert found.level == OK and found.text.endswith(f" in {usual}"), found


def test_every_file_of_the_voice_is_installed(tmp_path: Path) -> None:
    """By meson itself; also those without a suffix, and of the rest only what belongs there."""
    source, build, image = tmp_path / "source", tmp_path / "build", tmp_path / "image"
    wanted = [
        "__init__.py",
        "bus/a.py",
        "bus/a.xml",
        "voice/LICENSE",
        "voice/README.md",
        "voice/lexicon.bin",
        "voice/manifest.json",
        "voice/talker.gguf",
    ]
    for name in [*wanted, "bus/notes.txt", "bus/__pycache__/a.pyc", "voice/__pycache__/x.pyc"]:
        file = source / "edgettsd" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    shutil.copy(ROOT / "edgettsd" / "meson.build", source / "edgettsd")
    (source / "meson.build").write_text(
        "project('files', version: '1')\npy = import('python').find_installation()\nsubdir('edgettsd')\n"
    )
    meson = [sys.executable, "-m", "mesonbuild.mesonmain"]
    setup = [
        *meson,
        "setup",
        "-Dpython.purelibdir=/lib",
        "-Dpython.platlibdir=/lib",
        "-Dpython.bytecompile=-1",
    ]
    for command in (
        [*setup, build, source],
        # As the wheel is made.
        [*meson, "install", "-C", build, "--destdir", image, "--tags", "runtime,python-runtime"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    installed = image / "lib" / "edgettsd"
    found = sorted(str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file())
    assert found == wanted
