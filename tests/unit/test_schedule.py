"""The chunk schedule and the start policy, and what they mean for a listener."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from cython_kernels.probe import schedule_next, start_shortage
from cython_kernels.schedule import start_slower

# A frame's and a chunk's costs as measured at the true sizes, in frames of 80 ms.
EXACT = {1: 0.35, 4: 1.1, 8: 2.04}
FRAME = 0.47


def following(index: int, **more: float) -> int:
    return schedule_next("adaptive", [1, 4, 8], index, **({"frame": FRAME, "cost": EXACT} | more))


def test_fixed_and_ramp() -> None:
    costs = {"frame": FRAME, "cost": EXACT}
    assert [schedule_next("fixed", [4], i, **costs) for i in range(3)] == [4, 4, 4]
    assert [schedule_next("ramp", [1, 4, 8], i, **costs) for i in range(5)] == [1, 4, 8, 8, 8]


@pytest.mark.parametrize("ahead, chunk", [(0, 1), (2.9, 1), (3.0, 4), (5.7, 4), (5.9, 8), (60, 8)])
def test_adaptive_takes_the_largest_chunk_that_is_made_before_the_audio_ahead_runs_out(
    ahead: float, chunk: int
) -> None:
    assert following(0, ahead=ahead) == chunk


def test_frames_that_wait_already_cost_no_waiting() -> None:
    assert following(0, ahead=1.2, pending=4) == 4
    assert following(0, ahead=1.0, pending=4) == 1


def test_adaptive_never_takes_chunks_too_small_to_keep_pace_while_larger_ones_do() -> None:
    # 0.6 + 0.45 is too slow, 0.6 + 0.3 is not.
    assert following(0, frame=0.6, cost={1: 0.45, 4: 1.2, 8: 2.4}) == 4
    # Side by side only the slower of the two counts.
    assert following(0, frame=0.6, cost={1: 0.45, 4: 1.2, 8: 2.4}, turns=False) == 1
    # Nothing keeps pace: whatever is fastest.
    assert following(0, frame=0.9, cost={1: 0.45, 4: 1.2, 8: 2.4}) == 8


@pytest.mark.parametrize(
    "rate, slower, ready", [(0.75, 1.5, 13), (0.75, 1.0, 0), (1.5, 0.5, 0), (0.5, 1.5, 0), (1.5, 2, 200)]
)
def test_on_slower_cpus_as_much_is_ready_as_will_come_late(rate: float, slower: float, ready: int) -> None:
    assert start_slower(100, rate, slower) == ready


@dataclass(frozen=True)
class Case:
    """A machine, a schedule and the length of an utterance."""

    kind: str
    chunks: tuple[int, ...]
    frame: float
    cost: dict[int, float]
    turns: bool
    total: int
    drop: int

    @property
    def costs(self) -> dict[str, object]:
        return {"frame": self.frame, "cost": self.cost, "turns": self.turns}


def parts(n: int) -> list[int]:
    """Sizes in which n frames are decoded."""
    result = []
    for size in (8, 4, 1):
        result += [size] * (n // size)
        n %= size
    return result


def play(case: Case, start_at: int | None, margin: float = 1.0) -> tuple[int, float, int]:
    """Make a whole utterance, frame after frame, and play it.

    Playing starts with piece of sound number `start_at`, or (None) when the policy says so. Returns the piece
    with which it started, when that was, and the number of gaps.
    """
    free_at = ready_at = 0.0  # of the generator, of the decoder
    made, pending, index, drop, piece = 0, 0, 0, case.drop, 0
    start: tuple[int, float] | None = None
    gaps = 0
    padded = case.costs | {
        "frame": case.frame * margin,
        "cost": {size: cost * margin for size, cost in case.cost.items()},
    }
    for number in range(1, case.total + 1):
        free_at += case.frame
        ready_at = max(ready_at, free_at)
        pending += 1
        while pending:
            ahead = made - (ready_at - start[1] if start else 0.0)
            want = schedule_next(case.kind, case.chunks, index, **padded, ahead=ahead, pending=pending)
            if pending < want and number < case.total:
                break
            index += pending >= want
            for size in parts(min(want, pending)):
                ready_at += case.cost[size]
                if case.turns:
                    free_at = ready_at
                pending -= size
                heard = size - min(drop, size)
                drop -= min(drop, size)
                if not heard:
                    continue
                gaps += start is not None and ready_at > start[1] + made + 1e-9
                made += heard
                if start is None:
                    shortage = start_shortage(
                        case.kind,
                        case.chunks,
                        index,
                        **padded,
                        remaining=case.total - number,
                        ahead=made,
                        pending=pending,
                        queued=min(int((ready_at - free_at) / case.frame), case.total - number),
                        drop=drop,
                    )
                    if piece == start_at or (start_at is None and shortage <= 0):
                        start = piece, ready_at
                piece += 1
    # The end of it starts it at the latest.
    return (*(start or (piece, ready_at)), gaps)


def cases(count: int) -> list[Case]:
    rng = random.Random(20)
    made = []
    for _ in range(count):
        per_frame, total = rng.uniform(0.02, 1.2), rng.choice([2, 7, 30, 120, 400])
        made.append(
            Case(
                *rng.choice(
                    [
                        ("ramp", (1, 4, 8)),
                        ("ramp", (1,) * 10 + (4,) * 4 + (8,)),
                        ("fixed", (4,)),
                        ("fixed", (1,)),
                        ("adaptive", (1, 4, 8)),
                    ]
                ),
                frame=rng.uniform(0.02, 1.2),
                cost={
                    1: per_frame * rng.uniform(1, 1.8),
                    4: 4 * per_frame * rng.uniform(1, 1.3),
                    8: 8 * per_frame,
                },
                turns=rng.random() < 0.5,
                total=total,
                drop=rng.choice([0, 0, 4]) if total > 4 else 0,
            )
        )
    return made


def earliest(case: Case, most: int) -> int:
    """Tried out: the first piece of sound with which playing can start without a later gap."""
    return next(piece for piece in range(most + 1) if play(case, piece)[2] == 0)


@pytest.mark.parametrize("case", cases(150))
def test_the_policy_starts_as_early_as_trying_out_every_start_shows_to_be_safe(case: Case) -> None:
    piece, _, gaps = play(case, None)
    assert gaps == 0
    assert piece <= earliest(case, piece) + 1


def test_the_head_room_grows_with_the_spread_but_slower_than_the_utterance() -> None:
    more = {"frame": 0.6, "cost": {1: 0.7}, "ahead": 1.0}
    exact = [start_shortage("fixed", [1], 1, **more, remaining=n) for n in (1, 4, 100)]
    late = [start_shortage("fixed", [1], 1, **more, remaining=n, spread=0.1) for n in (1, 4, 100)]
    assert exact == pytest.approx([0.3, 1.2, 30])
    assert [b - a for a, b in zip(exact, late, strict=True)] == pytest.approx([0.325, 0.65, 3.25])
    # A chunk that may be late is waited for with more in hand.
    assert (following(0, ahead=3.2), following(0, ahead=3.2, spread=0.1)) == (4, 1)


def test_once_as_late_as_the_latest_of_recent_chunks_is_allowed_for() -> None:
    more = {"frame": 0.6, "cost": {1: 0.3}, "ahead": 1.0, "remaining": 100}
    assert start_shortage("fixed", [1], 1, **more) == pytest.approx(-0.1)
    assert start_shortage("fixed", [1], 1, **more, late=0.6) == pytest.approx(0.5)
    assert start_shortage("fixed", [1], 1, **(more | {"ahead": 2.0}), late=0.6) < 0
    assert (following(0, ahead=3.2), following(0, ahead=3.2, late=0.3)) == (4, 1)


@pytest.mark.parametrize("case", cases(60))
def test_with_head_room_it_starts_later_and_never_runs_dry(case: Case) -> None:
    piece, at, gaps = play(case, None, margin=1.1)
    assert gaps == 0
    assert at >= play(case, None)[1] or case.kind == "adaptive"
    assert piece >= 0


def test_at_the_true_sizes_playing_starts_with_the_first_frame() -> None:
    case = Case("adaptive", (1, 4, 8), FRAME, EXACT, True, 150, 0)
    piece, at, gaps = play(case, None, margin=1.1)
    assert (piece, gaps) == (0, 0)
    assert at == pytest.approx(FRAME + EXACT[1])


def test_an_open_end_waits_for_the_whole_of_the_last_chunk() -> None:
    more = {"frame": 0.5, "cost": EXACT, "ahead": 1.0, "remaining": 4}
    closed = start_shortage("ramp", [1, 8], 1, **more)
    # Four frames and then the end: 4 x 0.5 + 1.1 for the chunk of four.
    assert closed == pytest.approx(3.1 - 1.0)
    assert start_shortage("ramp", [1, 8], 1, **more, open=True) == pytest.approx(8 * 0.5 + 2.04 - 1.0)


def test_bad_schedules_are_refused() -> None:
    costs = {"frame": 0.1, "cost": {1: 0.1}}
    with pytest.raises(ValueError, match=r"'weird'.*fixed, ramp, adaptive"):
        schedule_next("weird", [1], 0, **costs)
    for chunks in ([], [0], [33], [1] * 17):
        with pytest.raises(ValueError, match="allowed is 1 to 16 numbers from 1 to 32"):
            schedule_next("ramp", chunks, 0, **costs)
    for cost in ({}, {2: 0.1}, dict.fromkeys(range(1, 10), 0.1)):
        with pytest.raises(ValueError, match="1 to 8 of them, beginning with 1"):
            schedule_next("ramp", [1], 0, frame=0.1, cost=cost)
