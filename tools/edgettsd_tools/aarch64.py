"""Compare edgettsd on aarch64 under qemu with this machine: kernels value by value, the daemon by its sound.

Run by tools/cross/check-aarch64. Prints one line for each comparison and ends with status 1 when one of them
is below its floor.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgettsd_tools.convert import Options, convert
from edgettsd_tools.make_checkpoint import make_checkpoint

# CPU model of qemu, the plug-in of ggml that fits it.
CPUS = (
    ("cortex-a53", "libggml-cpu-armv8.0_1.so"),
    ("cortex-a72", "libggml-cpu-armv8.0_1.so"),
    ("cortex-a76", "libggml-cpu-armv8.2_2.so"),
)
# Least signal-to-noise ratio in dB against this machine, by precision of the language model: quantised rows
# are multiplied with activations that are quantised too, and one rounding of those differs now and then.
FLOORS = {"f32": 90.0, "q8_0": 30.0, "q4_0": 30.0}
DECODER_FLOOR = 90.0
TEXT = "Good morning."
SECONDS = 300.0


def snr(reference: npt.NDArray[Any], other: npt.NDArray[Any]) -> float:
    """Ratio of signal to difference in dB; 200 for equal ones."""
    difference = float(np.sum((reference.astype(np.float64) - other) ** 2))
    return (
        200.0
        if difference == 0
        else float(10 * np.log10(np.sum(reference.astype(np.float64) ** 2) / difference))
    )


def compare(name: str, value: float, floor: float) -> bool:
    """Print one line; whether the value is good enough."""
    print(
        f"{name:44} {value:6.1f} dB  (at least {floor:.0f})  {'ok' if value >= floor else 'FAILED'}",
        flush=True,
    )
    return value >= floor


def bundles(folder: Path) -> dict[str, Path]:
    """A tiny random model in every precision."""
    checkpoint = folder / "checkpoint"
    if not checkpoint.exists():
        make_checkpoint(checkpoint, "tiny", "custom_voice", 1)
    made = {}
    for precision in FLOORS:
        made[precision] = folder / f"bundle-{precision}"
        if not (made[precision] / "manifest.json").exists():
            convert(checkpoint, made[precision], Options(talker=precision, predictor=precision))
    return made


def core(root: Path, work: Path, models: dict[str, Path]) -> bool:
    """Every kernel, every precision, on each CPU model."""
    good = True
    script = str(root / "tools" / "cross" / "core.py")
    for precision, bundle in models.items():
        here = work / f"{precision}.npz"
        subprocess.run([sys.executable, script, str(bundle), str(here)], check=True, capture_output=True)
        reference = np.load(here)
        for cpu, plugin in CPUS:
            there = work / f"{precision}-{cpu}.npz"
            start = time.monotonic()
            done = subprocess.run(
                [str(root / "tools/cross/run-aarch64"), "-cpu", cpu, script, str(bundle), str(there)],
                check=True,
                capture_output=True,
                text=True,
                timeout=SECONDS,
            )
            used = done.stdout.split()
            print(f"{cpu}, {precision}: {' '.join(used)}, {time.monotonic() - start:.0f} s", flush=True)
            good &= used == [plugin]
            result = np.load(there)
            for name in ("hidden", "logits", "codebook", "pcm"):
                floor = DECODER_FLOOR if name == "pcm" else FLOORS[precision]
                good &= compare(f"  {cpu} {precision} {name}", snr(reference[name], result[name]), floor)
    return good


def speak(command: list[str], work: Path, bundle: Path, name: str) -> npt.NDArray[np.int16]:
    """What a daemon started by `command` plays for TEXT, always the likeliest code, one second at most."""
    socket, wav = work / f"{name}.bus", work / f"{name}.wav"
    for old in (socket, wav):
        old.unlink(missing_ok=True)
    config = work / f"{name}.toml"
    config.write_text(
        f'[bus]\naddress = "unix:path={socket}"\n[model]\npath = "{bundle}"\n'
        f'[audio]\nsink = "file"\ndevice = "{wav}"\n'
        "[engine]\nmax_seconds = 1.0\nthreads_generator = 1\nthreads_decoder = 1\n"
    )
    bus = subprocess.Popen(
        ["dbus-daemon", "--session", "--nofork", "--nopidfile", f"--address=unix:path={socket}"],
        stderr=subprocess.DEVNULL,
    )
    daemon = None
    try:
        while not socket.exists():
            time.sleep(0.05)
        daemon = subprocess.Popen(
            [*command, "-m", "edgettsd", "--config", str(config)], env=os.environ | {"CACHE_DIRECTORY": ""}
        )
        call = ["busctl", f"--address=unix:path={socket}", "--timeout=60"]
        target = ["org.edgettsd.Speech1", "/org/edgettsd/Speech1", "org.edgettsd.Speech1"]
        until(lambda: quiet([*call, "get-property", *target, "State"]), daemon, "the daemon on the bus")
        options = ["Speak", "sa{sv}", TEXT, "2", "top_k", "u", "1", "seed", "t", "1"]
        subprocess.run([*call, "call", *target, *options], check=True, capture_output=True)
        until(
            lambda: '"idle"' in quiet([*call, "get-property", *target, "State"]), daemon, "the end of speech"
        )
        daemon.send_signal(signal.SIGTERM)
        if daemon.wait(SECONDS) != 0:
            sys.exit(f"{name}: edgettsd ended with status {daemon.returncode}")
        daemon = None
    finally:
        for process in (daemon, bus):
            if process is not None:
                process.kill()
                process.wait()
    return np.frombuffer(wav.read_bytes()[44:], np.int16)


def quiet(command: list[str]) -> str:
    """Output of a command, "" when it failed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def until(condition: Any, daemon: subprocess.Popen[bytes], what: str) -> None:
    """Wait for a true condition while the daemon lives."""
    end = time.monotonic() + SECONDS
    while not condition():
        if daemon.poll() is not None or time.monotonic() > end:
            sys.exit(f"waited in vain for {what}")
        time.sleep(0.2)


def main() -> None:
    """Command line: the repository's folder."""
    root = Path(sys.argv[1])
    work = root / "build" / "aarch64" / "check"
    work.mkdir(parents=True, exist_ok=True)
    models = bundles(work)
    good = core(root, work, models)
    here = speak([sys.executable], work, models["f32"], "here")
    for cpu, _ in CPUS[::2]:
        there = speak([str(root / "tools/cross/run-aarch64"), "-cpu", cpu], work, models["f32"], cpu)
        print(
            f"daemon on {cpu}: {len(there) / 24000:.2f} s of speech, here {len(here) / 24000:.2f} s",
            flush=True,
        )
        if len(there) != len(here) or not here.any():
            sys.exit("the two did not say the same")
        good &= compare(f"  {cpu} daemon f32 pcm", snr(here, there), 60.0)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
