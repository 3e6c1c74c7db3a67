"""The fake talker, predictor and decoder keep their formulas, pace and faults."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from cython_kernels.fake import FakeDecoder, FakePredictor, FakeTalker, frame_codes, frame_pcm

ROW = np.zeros((1, 8), np.float32)


def _talker(**kw: Any) -> FakeTalker:
    return FakeTalker(8, 40, **{"eos_after": 3, "eos_id": 33} | kw)


def test_talker_gives_its_codes_then_eos_and_starts_again() -> None:
    talker = _talker()
    for _ in range(2):
        talker.reset()
        seen = []
        for k, rows in enumerate([np.zeros((5, 8), np.float32), ROW, ROW, ROW]):
            talker.feed(rows)
            seen.append(int(talker.logits().argmax()))
            assert set(talker.hidden()) == {float(k)}
        assert seen == [7, 38 % 33, 69 % 33, 33]
    assert talker.counts == {"resets": 2, "calls": 8, "positions": 16}


def test_talker_without_end() -> None:
    talker = _talker(eos_after=-1, codes=10)
    for k in range(50):
        talker.feed(ROW)
        assert int(talker.logits().argmax()) == (31 * k + 7) % 10


def test_talker_fails_where_told_and_counts_context() -> None:
    talker = _talker(fail_at=1, max_context=4)
    talker.feed(ROW)
    with pytest.raises(RuntimeError, match="talker step failed"):
        talker.feed(ROW)
    other = _talker(max_context=4)
    other.feed(np.zeros((4, 8), np.float32))
    with pytest.raises(RuntimeError, match="-1003"):
        other.feed(ROW)


def test_frame_codes_are_what_the_fakes_give() -> None:
    talker, predictor = _talker(eos_after=-1), FakePredictor(5, 11, input_hidden=8)
    for frame in range(30):
        talker.feed(ROW)
        hidden = talker.hidden()
        found = [int(talker.logits().argmax()), int(predictor.begin(hidden, ROW[0]).argmax())]
        found += [int(predictor.next(g, ROW[0]).argmax()) for g in range(1, 4)]
        assert found == frame_codes(frame, groups=5, vocab=11, codes=33)
    assert predictor.counts == {"resets": 0, "calls": 120, "frames": 30}


def test_predictor_order_and_fault() -> None:
    predictor = FakePredictor(4, 11, input_hidden=8, fail_at=2)
    with pytest.raises(RuntimeError, match="-1001"):
        predictor.next(1, ROW[0])
    predictor.begin(ROW[0], ROW[0])
    with pytest.raises(RuntimeError, match="-1001"):
        predictor.next(2, ROW[0])
    with pytest.raises(RuntimeError, match="-1004"):
        predictor.begin(ROW[0] + 2, ROW[0])


def test_decoder_is_the_same_for_every_chunking_and_exact_in_16_bits() -> None:
    codes = np.random.default_rng(0).integers(0, 2048, (13, 16)).astype(np.int32)
    expected = np.concatenate([frame_pcm(list(c), i, 1920) for i, c in enumerate(codes)])
    assert np.array_equal(expected * 32768, np.round(expected * 32768)) and np.abs(expected).max() <= 0.5
    for schedule in ([1] * 13, [8, 4, 1], [4, 1, 8]):
        decoder = FakeDecoder(16, 1920)
        decoder.reset()
        parts, at = [], 0
        for n in schedule:
            parts.append(decoder.decode(codes[at : at + n]))
            at += n
        assert np.array_equal(np.concatenate(parts), expected)
        assert decoder.counts == {"resets": 1, "calls": len(schedule), "frames": 13}


def test_decoder_shows_a_lost_frame_a_swapped_code_and_a_missing_reset() -> None:
    codes = np.arange(32, dtype=np.int32).reshape(2, 16)
    decoder = FakeDecoder(16, 64)
    first = decoder.decode(codes[:1])
    assert not np.array_equal(decoder.decode(codes[:1]), first)
    decoder.reset()
    assert np.array_equal(decoder.decode(codes[:1]), first)
    decoder.reset()
    assert not np.array_equal(decoder.decode(codes[:1, ::-1]), first)


def test_decoder_refuses_and_fails_where_told() -> None:
    decoder = FakeDecoder(2, 64, (1, 4), fail_at=6)
    with pytest.raises(RuntimeError, match="-1001"):
        decoder.decode(np.zeros((2, 2), np.int32))
    with pytest.raises(RuntimeError, match="-1001"):
        decoder.decode(np.full((1, 2), -1, np.int32))
    decoder.decode(np.zeros((4, 2), np.int32))
    with pytest.raises(RuntimeError, match="-1004"):
        decoder.decode(np.zeros((4, 2), np.int32))


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: _talker(eos_id=40), "eos_id is 40, allowed is an integer from 1 to 39"),
        (lambda: _talker(step_us=-1), "step_us is -1"),
        (lambda: FakePredictor(33, 11, input_hidden=8), "groups is 33, allowed is an integer from 2 to 32"),
        (lambda: FakeDecoder(16, 1920, (4, 1)), "sizes is"),
        (lambda: FakeDecoder(16, 5000), "samples_per_frame is 5000"),
    ],
)
def test_parameters_out_of_range(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_pace() -> None:
    talker = _talker(step_us=20000)
    start = time.monotonic()
    talker.feed(ROW)
    assert 0.02 <= time.monotonic() - start < 1
