"""Every interleaving of the generation protocol, on a small model of it.

Four processes (loop, generator, decoder, playout) share two rings and the number of the live generation. Each
step of the model is one atomic access of the C code (et_pipe.c, et_generate.c, et_decode.c,
et_playout_step.c): a check and the write that follows it are two steps, so that an abort can come between
them. All reachable states are visited. Memory ordering is not part of the model; tests/unit/test_races.py
looks at that with ThreadSanitizer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

FRAMES = 3
RING = 2
END = -1
UTTERANCES = 2

Entry = tuple[int, int]


@dataclass(frozen=True, slots=True)
class World:
    """One state. Entries are (generation, number of the frame or END)."""

    live: int = 0
    items: tuple[Entry, ...] = ()
    blocks: tuple[Entry, ...] = ()
    jobs: tuple[int, ...] = ()
    events: tuple[tuple[str, int], ...] = ()
    played: tuple[Entry, ...] = ()
    # Loop: the utterance being spoken (0: none), how many were begun.
    speaking: int = 0
    begun: int = 0
    aborting: bool = False
    # Generator: its job, the next frame, whether the check before the write has passed.
    job: int = 0
    frame: int = 0
    cleared: bool = False
    # Decoder: what it holds, whether the check before the write has passed.
    held: Entry | None = None
    decoded: bool = False
    # Playout: its generation, whether that has ended, whether it fades, whether it has looked at `live`.
    own: int = 0
    ended: bool = True
    fading: bool = False
    looked: bool = False
    front: Entry | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """What the code checks; the tests switch a check off to show that the model notices."""

    generator_checks: bool = True
    decoder_checks: bool = True
    playout_skips_stale: bool = True
    playout_follows: bool = True


def loop(w: World, rules: Rules) -> Iterator[World]:
    """Begin an utterance, abort it at any time or wait for its end, begin the next."""
    if w.speaking == 0:
        if w.begun < UTTERANCES:
            g = w.live + 1
            yield replace(w, live=g, jobs=(*w.jobs, g), speaking=g, begun=w.begun + 1, aborting=False)
        return
    if any(g == w.speaking for _, g in w.events):
        yield replace(w, speaking=0)
    elif not w.aborting:
        yield replace(w, live=w.live + 1, aborting=True)


def generator(w: World, rules: Rules) -> Iterator[World]:
    if w.job == 0:
        if w.jobs:
            yield replace(w, job=w.jobs[0], jobs=w.jobs[1:], frame=0, cleared=False)
    elif not w.cleared:
        if rules.generator_checks and w.live != w.job:
            yield replace(w, job=0)
        elif len(w.items) < RING:
            yield replace(w, cleared=True)
    else:
        number = w.frame if w.frame < FRAMES else END
        yield replace(
            w,
            items=(*w.items, (w.job, number)),
            cleared=False,
            frame=w.frame + 1,
            job=0 if number == END else w.job,
        )


def decoder(w: World, rules: Rules) -> Iterator[World]:
    if w.held is None:
        if w.items:
            item = w.items[0]
            stale = rules.decoder_checks and item[0] != w.live
            yield replace(w, items=w.items[1:], held=None if stale else item, decoded=False)
    elif not w.decoded:
        if rules.decoder_checks and w.held[0] != w.live:
            yield replace(w, held=None)
        elif len(w.blocks) < RING:
            yield replace(w, decoded=True)
    else:
        yield replace(w, blocks=(*w.blocks, w.held), held=None, decoded=False)


def playout(w: World, rules: Rules) -> Iterator[World]:
    if not w.looked:
        if w.live != w.own and rules.playout_follows and not w.ended and not w.fading:
            # Nothing is taken while it fades; generations may come and go meanwhile.
            yield replace(w, fading=True)
        elif w.live != w.own and rules.playout_follows:
            events = w.events
            if not w.ended:
                events = (*events, ("dropped", w.own))
            # Those that came and went in between have ended too.
            events = (*events, *(("dropped", g) for g in range(w.own + 1, w.live)))
            yield replace(w, own=w.live, ended=False, fading=False, looked=True, events=events)
        elif w.blocks:
            yield replace(w, looked=True)
    elif w.front is None:
        if not w.blocks:
            yield replace(w, looked=False)
        elif w.blocks[0][0] != w.live and rules.playout_skips_stale:
            yield replace(w, blocks=w.blocks[1:])
        elif w.blocks[0][0] != w.own and rules.playout_skips_stale:
            yield replace(w, looked=False)
        else:
            yield replace(w, front=w.blocks[0])
    else:
        rest = replace(w, blocks=w.blocks[1:], front=None, looked=False)
        if w.ended:
            yield rest
        elif w.front[1] == END:
            yield replace(rest, ended=True, events=(*w.events, ("finished", w.own)))
        else:
            yield replace(rest, played=(*w.played, w.front))


PROCESSES = (loop, generator, decoder, playout)


def wrong(w: World) -> str:
    """What is wrong with a state; empty when nothing is."""
    ends = [g for _, g in w.events]
    if len(ends) != len(set(ends)):
        return "a generation ended twice"
    for g in {g for g, _ in w.played}:
        numbers = [number for owner, number in w.played if owner == g]
        if numbers != list(range(len(numbers))):
            return f"frames of generation {g} were lost, repeated or out of order"
        if ("finished", g) in w.events and len(numbers) != FRAMES:
            return f"generation {g} finished before its last frame"
    if [g for g, _ in w.played] != sorted(g for g, _ in w.played):
        return "a frame of an earlier generation was played after a later one"
    return ""


def explore(rules: Rules) -> tuple[int, str]:
    """How many states there are, and what is wrong with the first bad one."""
    start = World()
    seen, todo = {start}, [start]
    while todo:
        w = todo.pop()
        following = [n for process in PROCESSES for n in process(w, rules)]
        for n in following:
            if len(n.played) > len(w.played) and (
                any(g == n.played[-1][0] for _, g in w.events) or n.played[-1][0] != n.own
            ):
                return len(seen), "a frame was played after the end of its generation"
            if problem := wrong(n):
                return len(seen), problem
            if n not in seen:
                seen.add(n)
                todo.append(n)
        done = w.begun == UTTERANCES and w.speaking == 0
        if not following and not done:
            return len(seen), f"nobody can go on: {w}"
    return len(seen), ""


def test_no_interleaving_breaks_a_promise() -> None:
    states, problem = explore(Rules())
    assert problem == ""
    assert states > 3000


@pytest.mark.parametrize(
    "rules",
    [
        Rules(playout_skips_stale=False),
        Rules(playout_follows=False),
        Rules(generator_checks=False, decoder_checks=False, playout_skips_stale=False),
    ],
)
def test_the_model_notices_a_missing_check(rules: Rules) -> None:
    assert explore(rules)[1]


def test_the_checks_of_generator_and_decoder_are_only_for_speed() -> None:
    """Playout alone makes an abort right; the checks before it save work that nobody would hear."""
    assert explore(Rules(generator_checks=False, decoder_checks=False))[1] == ""
