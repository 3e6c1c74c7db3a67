"""The frame loop allocates nothing: what an utterance allocates does not grow with its frames."""

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
from cython_kernels.playout import FakeSink
from edgettsd.engine.parts import FakeParts
from edgettsd.models.qwen3_tts.sampling import LoopSampling, Sampling

allocations = ctypes.CDLL(None).allocations
allocations.restype = ctypes.c_ulong

class Sampled(FakeParts):
    def segment(self, text, options):
        # More candidates than any default has: the C library's sort would ask for memory.
        many = LoopSampling(do_sample=True, top_k=1000, top_p=0.9)
        segment = FakeParts.segment(self, text, options)
        return dataclasses.replace(segment, sampling=Sampling(many, many, eos=2150))

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


def test_frames_cost_no_allocation(tmp_path: Path) -> None:
    library = tmp_path / "count_alloc.so"
    source = TESTS / "rigs" / "count_alloc.c"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT, TESTS / "unit"],
        env=os.environ | {"LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    (few, short), (many, long) = (map(int, line.split()) for line in done.stdout.splitlines())
    assert (few, many) == (50, 500)
    assert short > 0, "nothing is counted"
    # Python's own, at the ends of a sentence, varies a little.
    assert long - short < (many - few) // 10
