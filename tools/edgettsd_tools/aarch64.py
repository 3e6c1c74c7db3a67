"""Compare edgettsd on aarch64 under qemu with this machine: kernels value by value, the daemon by its sound.

Run by tools/cross/check-aarch64. Prints one line for each comparison and ends with status 1 when one of them
is below its floor.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cython_kernels.litert import LiteRtDecoder
from edgettsd.models.default import BUILT_IN
from edgettsd_tools.convert import Options, convert
from edgettsd_tools.make_checkpoint import main as make_checkpoint
from edgettsd_tools.widen import widen

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
# Of the samples, 16 bits each: with weights in f32; as shipped, against this machine's decoder.
WIDE_FLOOR, VOICE_FLOOR = 80.0, 75.0
# Least share of the shipped voice's codes that are the same.
SAME_CODES = 0.8
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
        make_checkpoint(["--size", "tiny", "--task", "custom_voice", "--seed", "1", str(checkpoint)])
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


@dataclass(frozen=True, slots=True)
class Speech:
    """What a daemon has played, int16, and the codes [frames, groups] that it came from."""

    samples: npt.NDArray[np.int16]
    codes: npt.NDArray[np.int16]


def speak(command: list[str], work: Path, name: str, bundle: Path | None = None) -> Speech:
    """What a daemon started by `command` plays for TEXT: with `bundle`, or the voice of its own package."""
    socket, wav, codes = (work / f"{name}.{end}" for end in ("bus", "wav", "npy"))
    for old in (socket, wav, codes):
        old.unlink(missing_ok=True)
    config = work / f"{name}.toml"
    config.write_text(
        f'[bus]\naddress = "unix:path={socket}"\n[audio]\nsink = "file"\ndevice = "{wav}"\n'
        "[engine]\nthreads_generator = 1\nthreads_decoder = 1\n"
        + (f'[model]\npath = "{bundle}"\n' if bundle else "")
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
            [*command, str(codes), "--config", str(config)], env=os.environ | {"CACHE_DIRECTORY": ""}
        )
        call = ["busctl", f"--address=unix:path={socket}", "--timeout=60"]
        target = ["org.edgettsd.Speech1", "/org/edgettsd/Speech1", "org.edgettsd.Speech1"]
        until(lambda: quiet([*call, "get-property", *target, "State"]), daemon, "the daemon on the bus")
        subprocess.run(
            [*call, "call", *target, "Speak", "sa{sv}", TEXT, "0"], check=True, capture_output=True
        )
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
    return Speech(np.frombuffer(wav.read_bytes()[44:], np.int16), np.load(codes))


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


def decoded(bundle: Path, codes: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
    """What this machine's decoder makes of the codes, without the frames of the lead."""
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    decoder = LiteRtDecoder(
        bundle / "decoder.tflite",
        groups=manifest["code_groups"],
        samples_per_frame=manifest["samples_per_frame"],
        chunks=(1,),
        threads=1,
        entries=manifest["predictor"]["vocab"],
    )
    heard = [decoder.decode(frame[None].astype(np.int32)) for frame in codes][
        manifest["text"]["lead_frames"] :
    ]
    return np.rint(np.concatenate(heard) * 32767).astype(np.int16)


def voice(root: Path, work: Path) -> bool:
    """The daemon with the built-in voice, without dotprod and with it, against the daemon of this machine.

    With weights widened to float32 the codes must be the same, and the samples within WIDE_FLOOR. As it is
    shipped (8 bits), codes of the finer codebooks may differ, see `widen`; the samples must then be within
    VOICE_FLOOR of what this machine's decoder makes of the same codes.
    """
    wide = work / "voice-f32"
    shutil.rmtree(wide, ignore_errors=True)
    widen(BUILT_IN, wide)
    program = str(root / "tools" / "cross" / "daemon.py")
    good = True
    for bundle, kind in ((None, "8 bits"), (wide, "f32")):
        here = speak([sys.executable, program], work, "here", bundle)
        if len(here.samples) < 24000 // 2 or np.abs(here.samples).max() < 1000:
            sys.exit("this machine has not spoken")
        # The A72 runs the A53's code, and costs as much again.
        for cpu, _ in CPUS[::2]:
            start = time.monotonic()
            emulated = [str(root / "tools/cross/run-aarch64"), "-cpu", cpu, program]
            there = speak(emulated, work, cpu, bundle)
            if there.codes.shape != here.codes.shape or there.samples.shape != here.samples.shape:
                sys.exit(
                    f"{cpu} has spoken {there.codes.shape[0]} frames, this machine {here.codes.shape[0]}"
                )
            same = float(np.mean(there.codes == here.codes))
            print(
                f"daemon on {cpu}, voice in {kind}: {len(there.samples) / 24000:.2f} s of speech,"
                f" {same:.1%} of the codes as here, {snr(here.samples, there.samples):.1f} dB,"
                f" {time.monotonic() - start:.0f} s",
                flush=True,
            )
            if bundle:
                good &= same == 1.0
                good &= compare(f"  {cpu} f32 voice pcm", snr(here.samples, there.samples), WIDE_FLOOR)
            else:
                good &= same >= SAME_CODES and bool((there.codes[:, 0] == here.codes[:, 0]).all())
                again = decoded(BUILT_IN, there.codes)
                good &= compare(f"  {cpu} voice pcm, same codes", snr(again, there.samples), VOICE_FLOOR)
    return good


def main() -> None:
    """Command line: the repository's folder."""
    root = Path(sys.argv[1])
    work = root / "build" / "aarch64" / "check"
    work.mkdir(parents=True, exist_ok=True)
    models = bundles(work)
    good = core(root, work, models)
    good &= voice(root, work)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
