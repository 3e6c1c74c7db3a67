"""The sink without a device: it plays by the clock, and the playout thread treats it as a device."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
from audio_rigs import Player

from cython_kernels.playout import ClockSink

RATE = 24_000


@pytest.fixture
def player() -> Iterator[Player]:
    with Player() as running:
        yield running


def test_everything_is_heard_at_once_without_a_speed(player: Player) -> None:
    sink = ClockSink(RATE, speed=0)
    begun = time.monotonic()
    finished = player.wait(player.say(sink, np.zeros(20 * RATE, np.int16)), "finished")
    assert finished[3] == 20 * RATE
    assert time.monotonic() - begun < 10


def test_a_faster_clock_takes_less_time(player: Player) -> None:
    sink = ClockSink(RATE, speed=20)
    generation = player.say(sink, np.zeros(10 * RATE, np.int16))
    started = player.wait(generation, "started")
    finished = player.wait(generation, "finished")
    assert finished[3] == 10 * RATE
    assert (finished[4] - started[4]) * 1e-9 >= 0.4


def test_it_runs_dry_when_nothing_comes(player: Player) -> None:
    sink = ClockSink(RATE)
    generation = player.begin(sink)
    player.push(generation, np.zeros(RATE // 5, np.int16))
    player.wait(generation, "started")
    while not sink.counters()["xruns"]:
        time.sleep(0.01)
    player.push(generation, np.zeros(RATE // 5, np.int16))
    player.pipe.push_end(generation, 1)
    assert player.wait(generation, "finished")[3] == 2 * (RATE // 5)
    assert player.wait(generation, "underrun")[3] == 1
    assert sink.counters() == {"opens": 1, "xruns": 1, "suspends": 0}


def test_a_pause_holds_it_and_loses_nothing(player: Player) -> None:
    sink = ClockSink(RATE)
    generation = player.say(sink, np.zeros(RATE // 2, np.int16))
    player.wait(generation, "started")
    player.pipe.set_paused(True)
    time.sleep(1.0)
    assert player.named(generation, "finished") == []
    player.pipe.set_paused(False)
    assert player.wait(generation, "finished")[3] == RATE // 2


def test_an_abort_is_silent_at_once(player: Player) -> None:
    sink = ClockSink(RATE)
    generation = player.say(sink, np.zeros(RATE, np.int16))
    player.wait(generation, "started")
    player.begin(None)
    assert player.wait(generation, "dropped")[3] < RATE


@pytest.mark.parametrize(
    "options, text",
    [
        ({"rate": 999}, "rate: 999 given, 1000 to 384000 allowed"),
        ({"buffer": 0}, "buffer: 0 given, 1 to 16777216 allowed"),
        ({"speed": -0.5}, r"speed: -0\.5 given, 0 \(at once\) to 1e6 allowed"),
    ],
)
def test_values_out_of_range_are_named(options: dict[str, float], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ClockSink(**options)
