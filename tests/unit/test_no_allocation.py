"""The frame loop and playout allocate nothing: allocations grow neither with frames nor with fades."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]

# Prints the allocations of the engine's threads for 50 and for 500 frames.
SCRIPT = """
import ctypes, dataclasses, sys
sys.path.insert(0, sys.argv[1])
from engine_rig import drive, with_config
from cython_kernels.fake_sink import FakeSink
from edgettsd.engine.parts import FakeParts
from edgettsd.families.plan import LoopSampling

allocations = ctypes.CDLL(None).allocations
allocations.restype = ctypes.c_ulong

class Sampled(FakeParts):
    def segment(self, text, options):
        # More candidates than any default has: the C library's sort would ask for memory.
        many = LoopSampling(do_sample=True, top_k=1000, top_p=0.9)
        segment = FakeParts.segment(self, text, options)
        return dataclasses.replace(segment, samplers=(many, many))

async def test(rig):
    counts = []
    for seconds in (4.0, 4.0, 40.0):
        before = allocations()
        utterance = rig.say("word " * 100, max_seconds=seconds)
        await rig.ended(utterance)
        counts.append((rig.stats[utterance]["frames"], allocations() - before))
    for frames, count in counts[1:]:
        print(frames, count)

config = with_config(runaway_repeat_seconds=0.0, runaway_quiet_seconds=0.0)
drive(test, parts=Sampled(eos_after=-1), sink=FakeSink(speed=1000, buffer=1 << 16), config=config)
"""

# Prints the fades and the allocations of all threads for 20 and for 200 pauses.
FADES = """
import ctypes, sys, time
sys.path.insert(0, sys.argv[1])
import numpy as np
from audio_rigs import Player
from cython_kernels.fake_sink import FakeSink

allocations = ctypes.CDLL(None).allocations
allocations.restype = ctypes.c_ulong
sink = FakeSink(speed=0.5, buffer=1 << 14, fade_ms=5)
with Player(start_ms=10, pcm_seconds=60.0) as player:
    player.push(player.begin(sink), np.full(24_000 * 30, 9000, np.int16))
    for pauses in (2, 20, 200):
        before = allocations()
        for _ in range(pauses):
            time.sleep(0.005)
            player.pipe.set_paused(True)
            time.sleep(0.025)
            player.pipe.set_paused(False)
        count = allocations() - before
        if pauses > 2:
            print(sink.counts()["fades"], count)
"""


def counted(script: str, folder: Path, tmp_path: Path) -> list[list[int]]:
    """What a script prints that runs with every allocation counted."""
    library = tmp_path / "count_alloc.so"
    source = TESTS / "rigs" / "count_alloc.c"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, folder],
        env=os.environ | {"LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return [list(map(int, line.split())) for line in done.stdout.splitlines()]


def test_fades_cost_no_allocation(tmp_path: Path) -> None:
    (few, short), (many, long) = counted(FADES, TESTS, tmp_path)
    # One out, one in for each pause; a resume may come before the fade has begun.
    assert many - few > 200
    assert long - short < (many - few) // 10


def test_frames_cost_no_allocation(tmp_path: Path) -> None:
    (few, short), (many, long) = counted(SCRIPT, TESTS / "unit", tmp_path)
    assert (few, many) == (50, 500)
    assert short > 0, "nothing is counted"
    # Python's own, at the ends of a sentence, varies a little.
    assert long - short < (many - few) // 10
