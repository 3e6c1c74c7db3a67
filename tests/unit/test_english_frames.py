"""Phones with lengths become slots of 40 ms and pair tokens of 80 ms."""

from __future__ import annotations

import random
from itertools import groupby

import pytest

from edgettsd.frontends.english.frames import (
    MIN_GAP_SECONDS,
    PAIRS,
    SLOT_SECONDS,
    SOUND_IDS,
    SOUNDS,
    SPECIAL_IDS,
    VOCAB,
    pair_ids,
    pair_phones,
    slot_counts,
    slots,
)
from edgettsd.frontends.english.phones import FUNCTION_WORDS, PHONES, unstressed


def names(ids: list[int]) -> list[str]:
    return [SOUNDS[i] for i in ids]


def sentence(rng: random.Random) -> tuple[list[str], list[float]]:
    """Phones as the teacher gives them: SP at both ends and between words, never twice the same in a row."""
    phones, lengths = ["SP"], [rng.uniform(0.02, 0.1)]
    for _ in range(rng.randrange(1, 8)):
        for _ in range(rng.randrange(1, 7)):
            phones.append(rng.choice([p for p in SOUNDS[1:] if p != phones[-1]]))
            lengths.append(rng.choice((0.0, 0.0232, 0.0348, 0.0464, 0.1161, 0.209, rng.uniform(0, 0.3))))
        phones.append("SP")
        lengths.append(rng.choice((0.0232, 0.0464, 0.0697, 0.1393)))
    return phones, lengths


def test_phone_set() -> None:
    assert len(PHONES) == 70 == len(set(PHONES)) and PHONES[0] == "SP"
    assert len(SOUNDS) == 55 and VOCAB == 55 * 55 + 7 and PAIRS == 3025
    assert SOUND_IDS["AE2"] == SOUND_IDS["AE1"] != SOUND_IDS["AE0"]
    assert sorted(SPECIAL_IDS.values()) == list(range(PAIRS, VOCAB))
    assert unstressed(["DH", "AH1", "IH2", "ER0"]) == ["DH", "AH0", "IH2", "ER0"]
    assert "the" in FUNCTION_WORDS


@pytest.mark.parametrize(
    ("phones", "milliseconds", "expected"),
    [
        ("", [], ""),
        ("SP", [40], "SP"),
        ("SP", [0], "SP"),
        ("B AE1 D", [40, 80, 40], "B AE1 AE1 D"),
        ("B AE1 D", [40, 99, 40], "B AE1 AE1 D"),
        # Three phones in two slots of time: each has one.
        ("B AE1 D", [20, 40, 20], "B AE1 D"),
        # A short phone takes its slot from the long one beside it.
        ("B AE1 D", [10, 150, 40], "B AE1 AE1 AE1 D"),
        # A gap below 30 ms goes to its neighbours, one of 30 ms stays.
        ("B SP D", [70, 20, 70], "B B D D"),
        ("B SP D", [40, 30, 50], "B SP D"),
        # At the ends a gap always stays, and so do two in a row.
        ("SP B SP", [23, 57, 23], "SP B SP"),
        ("B SP SP D", [40, 40, 40, 40], "B SP SP D"),
        # Short phones in a row spread evenly around where they are.
        ("AE1 B D G AE1", [200, 20, 20, 20, 180], "AE1 AE1 AE1 AE1 B D G AE1 AE1 AE1 AE1"),
    ],
)
def test_slots(phones: str, milliseconds: list[float], expected: str) -> None:
    got = slots(phones.split(), [m / 1000 for m in milliseconds])
    assert names(got) == expected.split()


def test_every_phone_has_a_slot_and_the_length_stays() -> None:
    rng = random.Random(7)
    for _ in range(400):
        phones, lengths = sentence(rng)
        got = slots(phones, lengths)
        inner = range(1, len(phones) - 1)
        gone = {i for i in inner if phones[i] == "SP" and lengths[i] < MIN_GAP_SECONDS}
        kept = [p for i, p in enumerate(phones) if i not in gone]
        # In order, each once; neighbours over a removed gap may be alike.
        assert [p for p, _ in groupby(names(got))] == [p for p, _ in groupby(kept)]
        assert len(got) >= len(kept)
        total = sum(lengths) / SLOT_SECONDS
        assert len(got) == len(kept) if total < len(kept) else abs(len(got) - total) <= 0.5 + 1e-9
        assert slots(phones, lengths) == got
        counts = slot_counts(phones, lengths)
        assert len(counts) == len(phones) and sum(counts) == len(got)
        assert {i for i, count in enumerate(counts) if not count} == gone


def test_boundaries_that_fit_the_grid_are_kept() -> None:
    rng = random.Random(8)
    for _ in range(200):
        phones = [rng.choice(PHONES[1:]) for _ in range(rng.randrange(1, 30))]
        counts = [rng.randrange(1, 6) for _ in phones]
        expected = [SOUND_IDS[p] for p, n in zip(phones, counts, strict=True) for _ in range(n)]
        assert slots(phones, [n * SLOT_SECONDS for n in counts]) == expected


def test_boundaries_stay_near_the_truth() -> None:
    # With every phone a slot long or longer no boundary moves by more than one slot.
    rng = random.Random(9)
    for _ in range(200):
        phones = ["B" if i % 2 else "D" for i in range(rng.randrange(1, 40))]
        lengths = [rng.uniform(SLOT_SECONDS, 0.25) for _ in phones]
        got = [len(list(run)) for _, run in groupby(slots(phones, lengths))]
        end = true = 0.0
        for count, length in zip(got, lengths, strict=True):
            end, true = end + count, true + length / SLOT_SECONDS
            assert abs(end - true) <= 1.0


def test_long_input_is_linear() -> None:
    count = 200_000
    got = slots(["B", "D"] * (count // 2), [0.0 if i % 3 else 0.2 for i in range(count)])
    assert len(got) >= count


@pytest.mark.parametrize(
    ("phones", "seconds", "named"),
    [
        (["B"], [], "1 phones but 0 lengths"),
        (["B", "XX"], [0.1, 0.1], "'XX'"),
        (["B"], [-0.1], "-0.1"),
        (["B"], [float("nan")], "nan"),
        (["B"], [float("inf")], "inf"),
        (["B"], [11.0], "11.0"),
    ],
)
def test_bad_slots_are_refused(phones: list[str], seconds: list[float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        slots(phones, seconds)


def test_pairs() -> None:
    b, d, sp = SOUND_IDS["B"], SOUND_IDS["D"], SOUND_IDS["SP"]
    assert pair_ids([]) == []
    assert pair_ids([b, d]) == [b * 55 + d]
    assert pair_ids([b, d, b]) == [b * 55 + d, b * 55 + sp]
    every = [token for a in range(55) for c in range(55) for token in pair_ids([a, c])]
    assert every == list(range(PAIRS))
    assert pair_phones(b * 55 + d) == ("B", "D")


@pytest.mark.parametrize("bad", [-1, 55])
def test_bad_pairs_are_refused(bad: int) -> None:
    with pytest.raises(ValueError, match="sound is"):
        pair_ids([0, bad])


@pytest.mark.parametrize("bad", [-1, PAIRS])
def test_no_pair_token(bad: int) -> None:
    with pytest.raises(ValueError, match="pair token"):
        pair_phones(bad)
