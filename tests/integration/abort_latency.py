"""How long an Abort takes over the bus, from the call to Finished(aborted), with the built-in voice.

From the root of the source tree: python tests/integration/abort_latency.py [--count 100]. Prints a line for
the sound device (one that keeps real time), for SynthesizeToFd, and for a long text that is still being
prepared; beside each the round trip of a call that does nothing, which says how busy the machine is.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from audio_rigs import make_paced_rig
from integration.harness import Client, PrivateBus, System

SENTENCE = "The morning was cold and clear, and nobody in the village had expected a visitor with a lantern. "
KINDS = ("device", "reader", "preparing")


def quantile(values: list[float], share: float) -> float:
    """The value below which so many of them are."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


async def abort(client: Client, kind: str, wait: float) -> float:
    """Milliseconds from Abort to Finished of an utterance that has gone on for `wait` seconds."""
    reader = None
    if kind == "reader":
        fd, writer = os.pipe()
        reader = threading.Thread(target=_read_to_end, args=(fd,))
        reader.start()
        utterance = await client.to_fd(4 * SENTENCE, writer)
        os.close(writer)
    else:
        utterance = await client.speak((600 if kind == "preparing" else 4) * SENTENCE)
    if kind != "preparing":
        await client.started(utterance)
    await asyncio.sleep(wait)
    begun = time.monotonic_ns()
    await client.call("Abort", "t", utterance)
    assert await client.finished(utterance) == "aborted"
    took = (time.monotonic_ns() - begun) / 1e6
    if reader is not None:
        await asyncio.to_thread(reader.join)
    return took


def _read_to_end(fd: int) -> None:
    while os.read(fd, 65_536):
        pass
    os.close(fd)


async def measure(address: str, kind: str, count: int) -> tuple[list[float], list[float]]:
    """Milliseconds of so many aborts, at different moments, and of as many calls that do nothing."""
    aborts, calls = [], []
    async with Client(address) as client:
        await client.finished(await client.speak("Hello."))
        for number in range(count):
            aborts.append(await abort(client, kind, (number % 10) * (0.003 if kind == "preparing" else 0.03)))
            begun = time.monotonic_ns()
            await client.get("Version")
            calls.append((time.monotonic_ns() - begun) / 1e6)
    return aborts, calls


@contextmanager
def daemon() -> Iterator[System]:
    """The daemon with the built-in voice on a device that keeps real time."""
    folders = [Path(tempfile.mkdtemp(prefix="edgettsd-")) for _ in range(3)]
    bus = PrivateBus(folders[0])
    rig = make_paced_rig(folders[2] / "rig")
    system = System(
        bus,
        folders[1],
        engine="",
        config=f'[engine]\ncalibrate = false\n[audio]\ndevice = "{rig.pcm}"\n',
        env={**rig.env, "XDG_CACHE_HOME": str(folders[2] / "cache")},
    )
    try:
        yield system
    finally:
        system.stop()
        bus.close()
        for folder in folders:
            shutil.rmtree(folder)


def main() -> int:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    count = parser.parse_args().count
    with daemon() as system:
        for kind in KINDS:
            aborts, calls = asyncio.run(measure(system.bus.address, kind, count))
            text = ", ".join(f"{name} {quantile(aborts, share):.1f}" for name, share in _SHARES)
            print(f"{kind:10} Abort to Finished, ms: {text}; a call: median {quantile(calls, 0.5):.1f}")
    return 0


_SHARES = (("median", 0.5), ("p90", 0.9), ("p99", 0.99))

if __name__ == "__main__":
    sys.exit(main())
