"""What tools/cross/check-aarch64 runs on both machines: a few frames through every kernel of a bundle.

`python core.py BUNDLE OUT.npz [THREADS]` writes the results and prints which of ggml's plug-ins is in use.
It imports nothing but numpy and the kernels.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from cython_kernels.litert import LiteRtDecoder
from cython_kernels.llama import LlamaTalker
from cython_kernels.predictor import GgmlPredictor

FRAMES = 9


def main(bundle: Path, out: Path, threads: int) -> None:
    """Teacher-forced: every input is fixed, so that results can be compared value by value."""
    manifest = json.loads((bundle / "manifest.json").read_text())
    groups, entries = manifest["code_groups"], manifest["predictor"]["vocab"]
    random = np.random.default_rng(5)
    talker = LlamaTalker(bundle / "talker.gguf", max_context=64, threads=threads)
    predictor = GgmlPredictor(bundle / "predictor.gguf", threads=threads)
    decoder = LiteRtDecoder(
        bundle / "decoder.tflite",
        groups=groups,
        samples_per_frame=manifest["samples_per_frame"],
        chunks=(1, 4),
        threads=threads,
        entries=entries,
    )
    hidden, logits, codebook = [], [], []
    talker.feed(random.normal(0, 0.5, (10, talker.hidden_size)).astype(np.float32))
    for _ in range(FRAMES):
        talker.feed(random.normal(0, 0.5, (1, talker.hidden_size)).astype(np.float32))
        hidden.append(talker.hidden())
        logits.append(talker.logits())
        row = random.normal(0, 0.5, talker.hidden_size).astype(np.float32)
        codebook.append(np.array(predictor.begin(hidden[-1], row)))
        for group in range(1, groups - 1):
            codebook.append(np.array(predictor.next(group, row)))
    codes = random.integers(0, entries, (FRAMES, groups)).astype(np.int32)
    pcm = [decoder.decode(codes[:1]), decoder.decode(codes[1:5]), decoder.decode(codes[5:])]
    np.savez(out, hidden=hidden, logits=logits, codebook=codebook, pcm=np.concatenate(pcm))
    with open("/proc/self/maps") as maps:
        mapped = {Path(line.split()[-1]).name for line in maps if "libggml-cpu" in line}
    print(" ".join(sorted(mapped)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)
