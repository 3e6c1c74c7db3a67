"""Sound devices without hardware: pytest fixtures.

exact_rig  takes samples as fast as they come and keeps every one (ALSA's own `file` on `null`)
paced_rig  plays in real time (times `speed`), runs dry for real, keeps what was heard and logs events

Both name their device "rig" and also make it the default; `env` holds what a child process needs. The
fixtures set the same in this process. A test module takes them up with `pytest_plugins = ("audio_rigs",)`.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shlex
import subprocess
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from cython_kernels.pipe import SinkHandle
from cython_kernels.playout import Playout
from cython_kernels.probe import PipeEnds
from cython_kernels.probe_audio import faded

RIGS = Path(__file__).parent / "rigs"


class RigEvent(NamedTuple):
    """One line of the paced device's log; frames count from the last prepare."""

    ns: int
    name: str
    heard: int
    written: int


@dataclass(frozen=True)
class Rig:
    """A device: its PCM name, where its bytes and its log go, the environment it needs."""

    pcm: str
    capture: Path
    log: Path
    env: dict[str, str]

    def heard(self) -> bytes:
        """Every byte that left the device so far, in the device's own format."""
        return self.capture.read_bytes() if self.capture.exists() else b""

    def events(self, *names: str) -> list[RigEvent]:
        """What the paced device logged, in order; only the given names when there are some."""
        if not self.log.exists():
            return []
        rows = [line.split() for line in self.log.read_text().splitlines()]
        events = [RigEvent(int(t), name, int(heard), int(written)) for t, name, heard, written in rows]
        return [e for e in events if not names or e.name in names]

    def underruns(self) -> int:
        """How often the paced device ran dry and was started again.

        At the end of an utterance it runs dry too: so shows a plugin device that all was heard.
        """
        names = [e.name for e in self.events()]
        return sum(a == "XRUN" and b == "START" for a, b in itertools.pairwise(names))


class Player:
    """A pipe with a running playout thread; the test stands in for the decoder and the loop."""

    def __init__(
        self, *, start_ms: int = 100, preroll_ms: int = 0, postroll_ms: int = 0, **pipe: Any
    ) -> None:
        self.pipe = PipeEnds(**{"groups": 4, "samples_per_frame": 1920, **pipe})
        self.pipe.set_plan(self.pipe.sample_rate * start_ms // 1000, 0)
        self.playout = Playout(self.pipe, preroll_ms=preroll_ms, postroll_ms=postroll_ms)
        self.seen: list[tuple[str, int, str, int, int]] = []
        self.thread = threading.Thread(target=self.playout.run, name="playout", daemon=True)
        self.thread.start()

    def __enter__(self) -> Player:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the thread; fails when it does not end."""
        self.pipe.stop()
        self.thread.join(10)
        assert not self.thread.is_alive(), "playout thread does not stop"

    def begin(self, sink: SinkHandle | None) -> int:
        """Make a new generation live on `sink`."""
        self.playout.set_sink(sink)
        return self.pipe.next_generation()

    def push(self, generation: int, pcm: npt.NDArray[np.int16], chunks: Sequence[int] = (1920,)) -> str:
        """Give the samples in blocks of the given sizes, cycled; waits while the ring is full."""
        at, state = 0, "ok"
        sizes = itertools.cycle(chunks)
        while at < len(pcm) and state == "ok":
            n = next(sizes)
            state = self.pipe.push_pcm(generation, (pcm[at : at + n] / np.float32(32768)).astype(np.float32))
            at += n
        return state

    def say(
        self,
        sink: SinkHandle | None,
        pcm: npt.NDArray[np.int16],
        chunks: Sequence[int] = (1920,),
        reason: int = 1,
    ) -> int:
        """Begin, push everything and the end."""
        generation = self.begin(sink)
        self.push(generation, pcm, chunks)
        self.pipe.push_end(generation, reason)
        return generation

    def named(self, generation: int, *names: str) -> list[tuple[str, int, str, int, int]]:
        """Events of a generation so far."""
        self.seen += self.pipe.events()
        return [e for e in self.seen if e[1] == generation and (not names or e[0] in names)]

    def wait(self, generation: int, *names: str, timeout: float = 20.0) -> tuple[str, int, str, int, int]:
        """The first event of the generation with one of the names."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            if found := self.named(generation, *names):
                return found[0]
            time.sleep(0.002)
        raise AssertionError(
            f"no {' or '.join(names)} of generation {generation} in {timeout} s: {self.seen}"
        )


def noise(n: int, seed: int = 0) -> npt.NDArray[np.int16]:
    """White noise at full strength."""
    return np.random.default_rng(seed).integers(-32768, 32768, n).astype(np.int16)


def tone(n: int, hz: float = 1000.0) -> npt.NDArray[np.int16]:
    """A tone at 24 kHz."""
    return np.round(29_000 * np.sin(2 * np.pi * hz * np.arange(n) / 24_000)).astype(np.int16)


def with_tail(sound: npt.NDArray[np.int16] | bytes, fade_ms: int = 5) -> bytes:
    """What a device at 24 kHz plays of an utterance: its samples and, when the last one is loud, their fading
    mirror image."""
    n, pcm = 24 * fade_ms, np.frombuffer(sound, np.int16)
    if abs(int(pcm[-1])) < 64:
        return pcm.tobytes()
    echo = pcm[-2 : -2 - n : -1]
    return pcm.tobytes() + faded(echo.tobytes(), n)


def assert_same_sound(heard: bytes, expected: bytes) -> None:
    """Every sample the same but for its last bit: chunks of other sizes differ in rounding (109 dB)."""
    one, other = np.frombuffer(heard, np.int16), np.frombuffer(expected, np.int16)
    assert len(one) == len(other)
    assert np.abs(one.astype(np.int32) - other).max(initial=0) <= 1


def assert_tone(heard: npt.NDArray[np.generic], rate: int, n: int, full: float = 32768.0) -> None:
    """`heard` is exactly n frames of the tone: 90 dB overall and, against clicks, in every 10 ms of it."""
    assert len(heard) == n
    y = heard.astype(np.float64) / full
    t = np.arange(n) / rate
    basis = np.stack([np.sin(2 * np.pi * 1000 * t), np.cos(2 * np.pi * 1000 * t)], 1)
    # The tone begins and ends at full strength: the filter rings there.
    inner = slice(rate // 20, -rate // 20)
    fit = basis @ np.linalg.lstsq(basis[inner], y[inner], rcond=None)[0]
    error = (y - fit)[inner]
    assert 10 * np.log10(np.mean(fit[inner] ** 2) / np.mean(error**2)) > 90
    assert np.abs(error).max() < 3e-5 * 4


def build_paced_plugin() -> Path:
    """Compile the plugin once per source version; returns the shared object."""
    source = RIGS / "pcm_paced.c"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"edgettsd-rigs-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    target = folder / f"libasound_module_pcm_etpaced-{digest}.so"
    if not target.exists():
        part = folder / f"{target.name}.{os.getpid()}"
        compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
        command = [compiler, "-O2", "-fPIC", "-shared", "-DPIC", "-o", str(part), str(source), "-lasound"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
        part.replace(target)
    return target


def _write_rig(folder: Path, template: str, values: dict[str, str]) -> Rig:
    folder.mkdir(parents=True, exist_ok=True)
    capture, log, conf = folder / "heard.raw", folder / "device.log", folder / "asound.conf"
    text = (RIGS / template).read_text()
    for key, value in {"capture": str(capture), "log": str(log), **values}.items():
        text = text.replace(f"@{key}@", value)
    conf.write_text(text)
    return Rig("rig", capture, log, {"ALSA_CONFIG_PATH": str(conf)})


def make_exact_rig(folder: Path) -> Rig:
    """A device of unlimited speed. Its capture starts anew whenever it is opened."""
    return _write_rig(folder, "exact.conf", {})


def make_paced_rig(
    folder: Path,
    *,
    speed: float = 1.0,
    rate: int = 0,
    channels: int = 0,
    sample_format: str = "",
    can_pause: bool = True,
    state: str = "",
    state_at: int = 0,
    rewinds: int = 1,
    fetch: int = 0,
) -> Rig:
    """A device of `speed` times real time whose capture grows over all opens.

    It takes only the given rate (Hz), channels and ALSA format; 0 and "" leave it open. One program at a
    time can open it; another one gets EBUSY. It falls into `state` (SUSPENDED, DISCONNECTED) once, when frame
    state_at is heard. What it has can be changed up to `fetch` frames before it is heard, or not at all
    although it says so (rewinds 0; 2: its delay shows it, as with sound servers).
    """
    values = {
        "library": str(build_paced_plugin()),
        "lock": str(folder / "device.lock"),
        "speed": repr(float(speed)),
        "rate": str(rate),
        "channels": str(channels),
        "format": sample_format,
        "pause": str(int(can_pause)),
        "state": state,
        "state_at": str(state_at),
        "rewind": str(rewinds),
        "fetch": str(fetch),
    }
    return _write_rig(folder, "paced.conf", values)


@pytest.fixture
def exact_rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """The exact device, also for this process."""
    rig = make_exact_rig(tmp_path / "rig")
    for key, value in rig.env.items():
        monkeypatch.setenv(key, value)
    return rig


@pytest.fixture
def paced_rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Rig]:
    """Makes the paced device (arguments of make_paced_rig), also for this process."""

    def make(**options: object) -> Rig:
        rig = make_paced_rig(tmp_path / "rig", **options)  # type: ignore[arg-type]
        for key, value in rig.env.items():
            monkeypatch.setenv(key, value)
        return rig

    return make
