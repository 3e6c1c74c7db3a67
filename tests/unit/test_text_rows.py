"""Text rows that come while frames are made: the same codes as when all were there from the beginning."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tiny_gguf

from cython_kernels.frame_loop import Generator
from cython_kernels.llama import LlamaTalker
from cython_kernels.predictor import GgmlPredictor
from cython_kernels.probe import PipeEnds
from cython_kernels.text_rows import TextRows
from edgettsd.families.plan import LoopSampling, talker_first

Rows = npt.NDArray[np.float32]
FRAMES, ROWS = 12, 8


class Loop:
    """The real frame loop over tiny random models."""

    def __init__(self, folder: Path) -> None:
        for kind in ("talker", "predictor"):
            model = getattr(tiny_gguf, kind)()
            getattr(tiny_gguf, f"write_{kind}")(folder / f"{kind}.gguf", model, precision="f32")
        talker = LlamaTalker(folder / "talker.gguf", max_context=64, threads=1)
        predictor = GgmlPredictor(folder / "predictor.gguf", threads=1)
        rng = np.random.default_rng(3)
        self.hidden, self.vocab = talker.hidden_size, talker.vocab
        sizes = [talker.vocab] + [predictor.vocab] * (predictor.groups - 1)
        tables = [rng.standard_normal((n, self.hidden)).astype(np.float32) for n in sizes]
        self.prompt, self.text, (self.pad,) = (
            rng.standard_normal((n, self.hidden)).astype(np.float32) for n in (5, ROWS, 1)
        )
        self.pipe = PipeEnds(predictor.groups, 10, 24000)
        self.generator = Generator(self.pipe, talker, predictor, tables, talker_first(predictor.groups, 0))

    def say(self, trailing: Rows | TextRows, **bounds: Any) -> dict[str, Any]:
        """One sentence that never ends by itself; the pipe is emptied afterwards."""
        sampled = LoopSampling(do_sample=True, temperature=0.8, top_k=20)
        result = self.generator.run(
            self.pipe.next_generation(),
            self.prompt,
            trailing,
            self.pad,
            samplers=(sampled, sampled),
            banned=(np.eye(1, self.vocab, dtype=np.uint8)[0],),
            collect=FRAMES,
            seed=5,
            **{"max_frames": FRAMES} | bounds,
        )
        while self.pipe.pop_item() is not None:
            pass
        return result

    def rows(self, capacity: int = 64) -> TextRows:
        return TextRows(self.pipe, self.hidden, capacity)


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Loop:
    return Loop(tmp_path_factory.mktemp("rows"))


def writer(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize("seed", range(6))
def test_rows_that_come_late_give_the_same_codes(loop: Loop, seed: int) -> None:
    whole = loop.say(loop.text)
    assert whole["reason"] == "limit" and len(whole["codes"]) == FRAMES
    rng = random.Random(seed)
    rows = loop.rows(capacity=rng.choice([1, 2, 64]))

    def grow() -> None:
        at = 0
        while at < ROWS:
            time.sleep(rng.choice([0, 0.001, 0.02]))
            at += rows.write(loop.text[at : at + rng.randint(1, 3)])
        time.sleep(0.02)
        rows.close()

    thread = writer(grow)
    late = loop.say(rows)
    thread.join()
    assert np.array_equal(late["codes"], whole["codes"])
    # The rows matter, each of them: the tiny model is not deaf to its text.
    for part in (loop.text[:0], loop.text[:-1], loop.text[::-1]):
        assert not np.array_equal(loop.say(part)["codes"], whole["codes"])


def test_a_pause_of_the_writer_is_neither_an_end_nor_a_pad_row(loop: Loop) -> None:
    """After half of the rows nothing comes: no frame is made without the next row, and waiting is life."""
    whole, rows = loop.say(loop.text), loop.rows()
    assert rows.write(loop.text[:4]) == 4
    results: list[dict[str, Any]] = []
    thread = writer(lambda: results.append(loop.say(rows)))
    # The frame of each row, and the first one, which needs none.
    deadline = time.monotonic() + 30
    while loop.pipe.pending_frames < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    beats = loop.pipe.counters()["generator_beat"]
    time.sleep(0.7)
    assert loop.pipe.pending_frames == 5 and thread.is_alive()
    assert loop.pipe.counters()["generator_beat"] >= beats + 2
    rows.write(loop.text[4:])
    rows.close()
    thread.join()
    assert np.array_equal(results[0]["codes"], whole["codes"])
    assert results[0]["text_ns"] >= 500_000_000 and results[0]["wait_ns"] < results[0]["text_ns"]


@pytest.mark.parametrize("how", ["abort", "stop"])
def test_an_abort_ends_the_wait_for_text_at_once(tmp_path: Path, how: str) -> None:
    loop = Loop(tmp_path)
    rows, results = loop.rows(), list[dict[str, Any]]()
    thread = writer(lambda: results.append(loop.say(rows)))
    while loop.pipe.pending_frames < 1:
        time.sleep(0.01)
    t0 = time.monotonic()
    loop.pipe.next_generation() if how == "abort" else loop.pipe.stop()
    thread.join(30)
    assert not thread.is_alive() and time.monotonic() - t0 < 20
    assert results[0]["reason"] == "aborted"
    assert results[0]["error"] == ("stale" if how == "abort" else "stopped")
    # Whoever still writes does not notice.
    assert rows.write(loop.text) == ROWS


def test_a_sentence_of_known_length_waits_for_no_row_that_it_does_not_need(loop: Loop) -> None:
    rows = loop.rows()
    rows.write(loop.text[:4])
    assert loop.say(rows, end_frames=5)["reason"] == "completed"


def test_a_closed_text_takes_no_more_rows_and_a_full_ring_says_so(loop: Loop) -> None:
    rows = loop.rows(capacity=4)
    assert rows.write(loop.text) == 4 and rows.write(loop.text[4:]) == 0 and rows.write(loop.text[:0]) == 0
    rows.close()
    assert rows.write(loop.text) == 0
    assert np.array_equal(loop.say(rows)["codes"], loop.say(loop.text[:4])["codes"])
    empty = loop.rows()
    empty.close()
    assert np.array_equal(loop.say(empty)["codes"], loop.say(loop.text[:0])["codes"])


def test_rows_of_another_shape_are_refused(loop: Loop) -> None:
    with pytest.raises(ValueError, match=r"rows are float64 \(8, "):
        loop.rows().write(loop.text.astype(np.float64))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="trailing has rows of 3"):
        loop.say(TextRows(loop.pipe, 3))
    with pytest.raises(ValueError, match="hidden=0"):
        TextRows(loop.pipe, 0)
