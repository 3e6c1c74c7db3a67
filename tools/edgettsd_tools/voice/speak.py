"""Let a bundle speak sentences through the real engine, in the product's own environment.

Usage: python -m edgettsd_tools.voice.speak BUNDLE SENTENCES.txt OUT.npz
Writes float32 audio of every line as arr_0, arr_1, ... and prints how each utterance ended, once each.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgettsd.config import Config
from edgettsd.engine._api import Reason, Request, SpeakOptions
from edgettsd.engine.engine import Engine


async def speak(
    bundle: Path, texts: list[str], options: SpeakOptions
) -> tuple[list[bytes], list[str], float]:
    """16-bit audio and reason of every text, and the CPU seconds that all took."""
    config = Config()
    config = dataclasses.replace(
        config,
        model=dataclasses.replace(config.model, path=str(bundle)),
        engine=dataclasses.replace(config.engine, threads_generator=1, threads_decoder=1),
    )
    engine = Engine(config)
    ended = asyncio.Event()
    reasons: list[str] = []

    def finished(utterance: int, reason: Reason, stats: Mapping[str, Any]) -> None:
        reasons.append(str(reason))
        ended.set()

    engine.subscribe(finished=finished)
    await engine.start()
    sounds: list[bytes] = []
    started = time.process_time()
    for text in texts:
        receive, send = os.pipe()
        parts: list[bytes] = []

        def read(source: int = receive, into: list[bytes] = parts) -> None:
            while block := os.read(source, 1 << 16):
                into.append(block)
            os.close(source)

        reader = threading.Thread(target=read)
        reader.start()
        ended.clear()
        engine.speak(Request(text, options, fd=send))
        await ended.wait()
        await asyncio.to_thread(reader.join)
        sounds.append(b"".join(parts))
    spent = time.process_time() - started
    await engine.stop()
    return sounds, reasons, spent


def main(arguments: list[str]) -> int:
    """Command line entry point; returns the exit status."""
    if len(arguments) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    bundle, source, out = (Path(argument) for argument in arguments)
    texts = source.read_text(encoding="utf-8").splitlines()
    sounds, reasons, spent = asyncio.run(speak(bundle, texts, SpeakOptions()))
    audio = [np.frombuffer(sound, "<i2").astype(np.float32) / 32768.0 for sound in sounds]
    np.savez(out, *audio)
    seconds = sum(len(sound) for sound in audio) / 24_000
    peak = max((float(np.abs(sound).max(initial=0.0)) for sound in audio), default=0.0)
    print(
        f"{len(texts)} utterances, {seconds:.1f} s of speech, "
        f"{spent / max(seconds, 1e-9):.3f} CPU seconds a second, "
        f"peak {20 * np.log10(max(peak, 1e-9)):.1f} dBFS, ended: {dict(collections.Counter(reasons))}",
        flush=True,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
