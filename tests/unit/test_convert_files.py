"""Conversion as a program: what it says, what it leaves behind when it is interrupted, what it replaces."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import model_files
import pytest
from edgettsd_tools import convert as tool
from edgettsd_tools.convert import Options, convert

from edgettsd.errors import ModelInvalidError
from edgettsd.models.store import open_bundle

pytestmark = pytest.mark.usefixtures("remembered_tokenizers")
TOOLS = Path(tool.__file__).parent.parent
ENVIRONMENT = os.environ | {"PYTHONPATH": f"{TOOLS}:{TOOLS.parent}:{os.environ.get('PYTHONPATH', '')}"}


def _heed_interrupts() -> None:
    """A shell starts what goes to its background with SIGINT ignored, and so would be what a test starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _start(source: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "edgettsd_tools.convert", str(source), str(out), "--quiet", *options]
    return subprocess.Popen(
        command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True, preexec_fn=_heed_interrupts
    )


def _wait_for_partial(folder: Path, file: str) -> Path:
    """Wait until the conversion under way has begun to write `file`."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = list(folder.glob(f"out.partial-*/{file}"))
        if found:
            return found[0].parent
        time.sleep(0.001)
    raise AssertionError(f"{file} was not begun")


@pytest.mark.parametrize(
    "file", ["tokenizer.gguf", "talker.gguf", "embeddings.safetensors", "decoder.tflite"]
)
def test_a_killed_conversion_leaves_nothing_that_loads(file: str, tmp_path: Path) -> None:
    process = _start(model_files.checkpoint(), tmp_path / "out")
    partial = _wait_for_partial(tmp_path, file)
    process.kill()
    process.communicate()
    assert not (tmp_path / "out").exists()
    with pytest.raises(ModelInvalidError, match="is an unfinished conversion"):
        open_bundle(partial)
    # The next conversion clears it away.
    convert(model_files.checkpoint(), tmp_path / "out", Options())
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_interrupted_conversion_cleans_up(number: signal.Signals, tmp_path: Path) -> None:
    for _ in range(10):
        process = _start(model_files.checkpoint(), tmp_path / "out", "--force")
        _wait_for_partial(tmp_path, "talker.gguf")
        process.send_signal(number)
        _, errors = process.communicate()
        if process.returncode != 0:
            break
        # It was faster than the signal.
        shutil.rmtree(tmp_path / "out")
    assert process.returncode == 130
    assert errors == "interrupted, nothing was written\n"
    assert os.listdir(tmp_path) == []


def test_a_running_conversion_is_not_cleared_away(tmp_path: Path) -> None:
    running = tmp_path / f"out.partial-{os.getppid()}"
    running.mkdir()
    convert(model_files.checkpoint(), tmp_path / "out", Options())
    assert running.is_dir()


def test_force_replaces_a_bundle_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "out"
    convert(model_files.checkpoint(), out, Options(name="one"))
    with pytest.raises(FileExistsError, match="exists"):
        convert(model_files.checkpoint(), out, Options(name="two"))
    assert open_bundle(out).manifest.name == "one"
    convert(model_files.checkpoint(), out, Options(name="two"), force=True)
    assert open_bundle(out, "full").manifest.name == "two"
    assert os.listdir(tmp_path) == ["out"]

    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    (tmp_path / "link").symlink_to(out)
    for name in ("home", "link"):
        with pytest.raises(FileExistsError, match="is not a bundle, it will not be replaced"):
            convert(model_files.checkpoint(), tmp_path / name, Options(), force=True)
    assert (tmp_path / "home" / "letter.txt").read_text() == "dear"


def test_a_replacement_killed_between_its_renames_is_undone(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    old = model_files.copy(model_files.bundle(), tmp_path / f"out.partial-old-{gone.pid}")
    with pytest.raises(FileExistsError):
        convert(model_files.checkpoint(), tmp_path / "out", Options())
    assert not old.exists()
    open_bundle(tmp_path / "out", "full")


@pytest.mark.parametrize(
    "arguments, status, messages",
    [
        (["no-such-folder", "out"], 1, ["error: no-such-folder is not a folder", "hint: "]),
        (["in", "in"], 2, ["in exists", "--force"]),
        (["in", "out", "--talker", "q3"], 2, ["invalid choice: 'q3'"]),
        (["in", "out", "--voice-embedding", "A=x.npy"], 2, ["'A=x.npy': NAME=FILE.npy is needed"]),
        (["in", "out", "--voice-embedding", "a"], 2, ["NAME=FILE.npy is needed"]),
        (["in", "out"] + ["--voice-embedding", "a=x.npy"] * 2, 2, ["the same NAME twice"]),
    ],
)
def test_the_command_says_what_is_wrong(
    arguments: list[str],
    status: int,
    messages: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").symlink_to(model_files.checkpoint())
    with pytest.raises(SystemExit) as caught:
        tool.main(arguments)
    assert caught.value.code == status
    errors = capsys.readouterr().err
    for message in messages:
        assert message in errors
    assert os.listdir(tmp_path) == ["in"]


def test_a_full_disk_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device", "talker.gguf")

    monkeypatch.setattr("edgettsd_tools.families.qwen3_tts.gguf_lm.write_talker", fail)
    with pytest.raises(SystemExit) as caught:
        tool.main([str(model_files.checkpoint()), str(tmp_path / "out"), "--quiet"])
    assert caught.value.code == 1
    assert "error: talker.gguf: No space left on device\nhint: free some space" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


def test_the_launcher_converts_with_a_progress_bar(tmp_path: Path) -> None:
    done = subprocess.run(
        [TOOLS / "convert", model_files.checkpoint(), "out", "--talker", "f16"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "100%" in done.stderr and done.stderr.endswith("out is ready\n")
    assert open_bundle(tmp_path / "out").manifest.talker.precision == "f16"


def test_memory_stays_at_one_tensor(tmp_path: Path) -> None:
    """The peak of a conversion grows with its largest tensor, not with the checkpoint."""
    code = (
        "import resource, sys; from pathlib import Path; from edgettsd_tools.convert import Options, convert;"
        "import edgettsd_tools.families.qwen3_tts.gguf_lm, edgettsd_tools.families.qwen3_tts.decoder;"
        "start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "convert(Path(sys.argv[1]), Path(sys.argv[2]), Options());"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, model_files.checkpoint(), tmp_path / "out"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    )
    # 45 MB of tensors; the tokenizer's tables alone take about 90 MB of Python objects.
    assert int(done.stdout) < 250_000
