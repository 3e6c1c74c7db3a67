"""A prompt's prefix that the talker still holds is not fed again, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import tiny_gguf

from cython_kernels.frame_loop import Generator
from cython_kernels.llama import LlamaTalker
from cython_kernels.predictor import GgmlPredictor
from cython_kernels.probe import PipeEnds
from edgettsd.families.plan import LoopSampling, talker_first

Rows = npt.NDArray[np.float32]


class Loop:
    """A generator over tiny models whose pipe is emptied after each segment."""

    def __init__(self, folder: Path, precision: str) -> None:
        folder.mkdir()
        talker = LlamaTalker(self._file(folder, "talker", precision), max_context=64, threads=1)
        predictor = GgmlPredictor(self._file(folder, "predictor", precision), threads=1)
        rng = np.random.default_rng(3)
        self.hidden = talker.hidden_size
        sizes = [talker.vocab] + [predictor.vocab] * (predictor.groups - 1)
        tables = [rng.standard_normal((n, self.hidden)).astype(np.float32) for n in sizes]
        self.pipe = PipeEnds(predictor.groups, 10, 24000)
        self.talker = talker
        self.generator = Generator(self.pipe, talker, predictor, tables, talker_first(predictor.groups, 0))

    @staticmethod
    def _file(folder: Path, kind: str, precision: str) -> Path:
        path = folder / f"{kind}.gguf"
        model = getattr(tiny_gguf, kind)()
        getattr(tiny_gguf, f"write_{kind}")(path, model, precision=precision)
        return path

    def say(self, prompt: Rows, prefix: int) -> list[list[int]]:
        generation = self.pipe.next_generation()
        greedy = LoopSampling(do_sample=False)
        result = self.generator.run(
            generation,
            prompt,
            prompt[:0],
            np.zeros(self.hidden, np.float32),
            samplers=(greedy, greedy),
            banned=(np.eye(1, self.talker.vocab, dtype=np.uint8)[0],),
            max_frames=6,
            collect=6,
            prefix=prefix,
        )
        while self.pipe.pop_item() is not None:
            pass
        assert result["reason"] == "limit"
        return [list(map(int, frame)) for frame in result["codes"]]


def prompt_of(loop: Loop, voice: int, text: int) -> Rows:
    fixed = np.random.default_rng(voice).standard_normal((7, loop.hidden))
    rest = np.random.default_rng(1000 + text).standard_normal((2, loop.hidden))
    return np.concatenate([fixed, rest]).astype(np.float32)


@pytest.mark.parametrize("precision", ["f32", "q8_0"])
def test_codes_are_the_same_whether_the_prefix_was_held_or_not(tmp_path: Path, precision: str) -> None:
    loop = Loop(tmp_path / "one", precision)
    order = [(1, 1), (1, 2), (1, 2), (2, 1), (2, 3), (1, 1)]
    held = [loop.say(prompt_of(loop, *case), 7) for case in order]
    for number, case in enumerate(order):
        fresh = Loop(tmp_path / f"fresh{number}", precision)
        assert fresh.say(prompt_of(fresh, *case), 7) == held[number]
    assert held[0] == held[5] and held[1] == held[2] and held[0] != held[1]


def test_without_a_prefix_everything_is_fed(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "one", "f32")
    prompt = prompt_of(loop, 1, 1)
    assert loop.say(prompt, 0) == loop.say(prompt, 0) == loop.say(prompt, len(prompt))
    with pytest.raises(ValueError, match="prefix is 10: allowed is 0 to the prompt's 9 rows"):
        loop.say(prompt, 10)
