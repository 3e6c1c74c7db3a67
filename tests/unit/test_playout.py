"""The playout thread with a scripted sink: ends, faults, choice of sinks, no leak, no spinning."""

from __future__ import annotations

import errno
import gc
import os
import random
import threading
import time
import weakref

import numpy as np
import numpy.typing as npt
import pytest
from audio_rigs import Player

from cython_kernels.fake_sink import FakeSink
from cython_kernels.pipe import Pipe
from cython_kernels.playout import FdSink, Playout

pytest_plugins = ("audio_rigs",)


def noise(n: int, seed: int = 0) -> npt.NDArray[np.int16]:
    return np.random.default_rng(seed).integers(-32768, 32768, n).astype(np.int16)


def switches_of(thread: threading.Thread) -> int:
    """How often the thread went to sleep."""
    with open(f"/proc/self/task/{thread.native_id}/status") as f:
        line = next(x for x in f if x.startswith("voluntary_ctxt_switches"))
    return int(line.split()[1])


def rss_kb() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


@pytest.mark.parametrize("speed", [0.0, 5.0])
def test_one_utterance(speed: float) -> None:
    pcm = noise(30_001)
    sink = FakeSink(speed=speed, buffer=24_000, capture=100_000)
    with Player() as player:
        generation = player.say(sink, pcm, (1920, 7680))
        assert player.wait(generation, "finished")[2:4] == ("completed", len(pcm))
        assert [e[0] for e in player.named(generation)] == ["started", "finished"]
        assert player.pipe.counters()["samples_out"] == len(pcm)
    assert sink.heard() == pcm.tobytes()
    names = ("opens", "closes", "starts", "drops", "pauses", "fades", "gaps")
    counts = {"heard": 30_001} | dict(zip(names, (1, 1, 1, 0, 0, 0, 0), strict=True))
    assert sink.counts() == counts


@pytest.mark.parametrize(("reason", "name"), [(1, "completed"), (4, "runaway"), (5, "limit"), (7, "error")])
def test_the_reason_of_the_end_is_passed_on(reason: int, name: str) -> None:
    with Player() as player:
        generation = player.say(FakeSink(speed=0), noise(1000), reason=reason)
        assert player.wait(generation, "finished")[2] == name


def test_an_utterance_without_samples_leaves_the_device_alone() -> None:
    sink = FakeSink(open_errno=errno.EBUSY)
    with Player() as player:
        generation = player.begin(sink)
        player.pipe.push_end(generation)
        assert player.wait(generation, "finished")[3] == 0
        assert [e[0] for e in player.named(generation)] == ["finished"]


@pytest.mark.parametrize("xrun_at", [0, 1, 480, 5000, 11_999])
def test_an_xrun_loses_and_repeats_nothing(xrun_at: int) -> None:
    pcm = noise(12_000)
    sink = FakeSink(speed=5, buffer=24_000, capture=50_000, xrun_at=xrun_at)
    with Player(start_ms=20) as player:
        generation = player.say(sink, pcm)
        assert player.wait(generation, "finished")[3] == len(pcm)
        assert sink.counters()["xruns"] == 1
        assert sink.gaps() == [xrun_at]
        assert sink.counts()["starts"] == 2
    assert sink.heard() == pcm.tobytes()


@pytest.mark.parametrize("xrun_at, echo", [(11_000, 0), (-1, 480)])
def test_no_echo_follows_a_gap_that_only_the_end_came_after(xrun_at: int, echo: int) -> None:
    # The device keeps what it has when it runs dry by script, so the gap may lie before the last samples.
    pcm = np.full(12_000, 8000, np.int16)
    sink = FakeSink(speed=5, buffer=24_000, capture=50_000, xrun_at=xrun_at, fade_ms=20)
    with Player(start_ms=20) as player:
        generation = player.begin(sink)
        player.push(generation, pcm)
        until = time.monotonic() + 10
        while xrun_at >= 0 and sink.counters()["xruns"] == 0 and time.monotonic() < until:
            time.sleep(0.005)
        player.pipe.push_end(generation)
        player.wait(generation, "finished")
    assert len(sink.heard()) // 2 == len(pcm) + echo
    assert sink.heard().startswith(pcm.tobytes())


@pytest.mark.parametrize("fail_at", [0, 3000, 30_000])
def test_a_device_that_vanishes_ends_the_utterance_once(fail_at: int) -> None:
    pcm = noise(60_000)
    sink = FakeSink(speed=20, fail_at=fail_at, capture=100_000)
    good = FakeSink(speed=0, capture=5000)
    with Player() as player:
        generation = player.say(sink, pcm)
        assert player.wait(generation, "device")[2:4] == ("device", -errno.ENODEV)
        time.sleep(0.05)
        assert player.pipe.buffered == 0, "what follows is thrown away"
        assert [e[0] for e in player.named(generation)][-1:] == ["device"]
        assert not sink.in_use
        player.wait(player.say(good, noise(5000)), "finished")
        assert len(player.named(generation, "device")) == 1
        assert not player.named(generation, "dropped", "finished")
    assert sink.heard() == pcm[:fail_at].tobytes()
    assert good.heard() == noise(5000).tobytes()


def test_a_busy_device_is_told_from_others() -> None:
    with Player() as player:
        generation = player.say(FakeSink(open_errno=errno.EBUSY), noise(5000))
        assert player.wait(generation, "device")[3] == -errno.EBUSY


def test_without_a_sink_the_utterance_ends_with_a_device_error() -> None:
    with Player() as player:
        generation = player.say(None, noise(5000))
        assert player.wait(generation, "device")[3] == -errno.ENODEV


def test_a_device_that_hangs_is_given_up() -> None:
    # It needs 24 s for what others play in one.
    with Player() as player:
        generation = player.say(FakeSink(speed=1e-6, stall_ms=150), noise(24_000))
        assert player.wait(generation, "device", timeout=3)[3] == -errno.ETIMEDOUT


def test_a_device_that_is_slow_to_drain_is_not_given_up() -> None:
    with Player() as player:
        sink = FakeSink(speed=1, drain_ms=100, stall_ms=300)
        generation = player.say(sink, noise(12_000))
        begun = time.monotonic()
        assert player.wait(generation, "finished")[3] == 12_000
        assert 0.55 < time.monotonic() - begun < 0.9


def test_abort_during_a_slow_drain() -> None:
    with Player() as player:
        sink = FakeSink(speed=20, drain_ms=10_000)
        generation = player.say(sink, noise(2400))
        player.wait(generation, "started")
        time.sleep(0.1)
        asked = time.monotonic_ns()
        player.pipe.next_generation()
        dropped = player.wait(generation, "dropped")
        assert dropped[3] == 2400
        assert dropped[4] - asked < 50_000_000


def test_every_generation_ends_exactly_once() -> None:
    rng = random.Random(5)
    sinks = [FakeSink(speed=0), FakeSink(speed=50), FakeSink(speed=50, xrun_at=4000)]
    with Player(start_ms=10) as player:
        for _ in range(300):
            generation = player.begin(rng.choice(sinks))
            n = rng.choice((0, 1, 480, 3000, 12_000))
            player.push(generation, noise(n))
            if rng.random() < 0.8:
                player.pipe.push_end(generation)
            if rng.random() < 0.5:
                time.sleep(rng.random() * 0.004)
            # Nobody loses events as long as the queue is read.
            player.seen += player.pipe.events()
        last = player.pipe.next_generation()
        player.wait(last - 1, "finished", "dropped")
        for generation in range(1, last):
            ends = player.named(generation, "finished", "dropped", "device")
            assert len(ends) == 1, (generation, ends)


def test_no_end_is_lost_while_nobody_reads_events() -> None:
    """The device runs dry 400 times, more often than the queue has room; what matters is still told."""
    sink = FakeSink(speed=1000, buffer=1 << 12, capture=1 << 16)
    with Player(start_ms=0) as player:
        generation = player.begin(sink)
        for _ in range(400):
            before = player.pipe.counters()["samples_out"]
            player.push(generation, noise(24))
            until = time.monotonic() + 2
            while time.monotonic() < until and sink.counters()["xruns"] == 0:
                time.sleep(0.0005)
            while time.monotonic() < until and player.pipe.counters()["samples_out"] == before:
                time.sleep(0.0005)
            time.sleep(0.002)
        player.pipe.push_end(generation)
        time.sleep(0.1)
        underruns = player.pipe.counters()["underruns"]
        assert underruns > 256
        assert player.wait(generation, "finished", timeout=2)[3] == 400 * 24
        assert len(player.named(generation, "started")) == 1
        counts = [event[3] for event in player.named(generation, "underrun")]
        assert counts == list(range(1, len(counts) + 1))
    assert len(sink.heard()) == 2 * 400 * 24


def test_ends_of_a_thousand_generations_wait_for_the_reader() -> None:
    sink = FakeSink(speed=0)
    with Player(start_ms=0) as player:
        for _ in range(1000):
            player.begin(sink)
        last = player.pipe.next_generation()
        player.wait(last - 1, "dropped")
        ends = [event[1] for event in player.seen if event[0] in ("finished", "dropped", "device")]
        assert ends == list(range(1, last))


def test_generations_that_nobody_saw_have_ended_too() -> None:
    with Player() as player:
        sink = FakeSink(speed=1, open_ms=100)
        first = player.begin(sink)
        player.push(first, noise(4800))
        time.sleep(0.03)
        for _ in range(3):
            last = player.pipe.next_generation()
        player.pipe.next_generation()
        player.wait(last, "dropped")
        assert [player.named(g, "dropped")[0][3] for g in range(first, last + 1)] == [0, 0, 0, 0]


def test_a_sink_is_for_the_next_generation_only() -> None:
    pcm = noise(24_000)
    one, two = FakeSink(speed=10, capture=50_000), FakeSink(speed=0, capture=50_000)
    with Player() as player:
        first = player.begin(one)
        player.push(first, pcm[:6000])
        player.playout.set_sink(two)
        player.push(first, pcm[6000:])
        player.pipe.push_end(first)
        player.wait(first, "finished")
        second = player.pipe.next_generation()
        player.push(second, pcm)
        player.pipe.push_end(second)
        player.wait(second, "finished")
    assert one.heard() == two.heard() == pcm.tobytes()


def test_a_sink_chosen_before_the_first_block_came() -> None:
    # The choice for the generation after this one must not reach this one.
    with Player() as player:
        for _ in range(200):
            one, two = FakeSink(speed=0, capture=10), FakeSink(speed=0, capture=10)
            first = player.begin(one)
            threading.Thread(target=player.push, args=(first, noise(5))).start()
            player.playout.set_sink(two)
            player.wait(first, "started")
            player.pipe.push_end(first)
            player.wait(first, "finished")
            assert one.counts()["heard"] == 5
            assert two.counts()["opens"] == 0


def test_a_sink_that_is_kept_open_is_closed_when_another_one_is_used() -> None:
    kept, other = FakeSink(speed=0, keep_open_ms=-1), FakeSink(speed=0, keep_open_ms=0)
    with Player() as player:
        player.wait(player.say(kept, noise(1000)), "finished")
        assert kept.in_use
        assert kept.counts()["closes"] == 0
        with pytest.raises(RuntimeError, match="playout is using it"):
            kept.close()
        player.wait(player.say(other, noise(1000)), "finished")
        assert not kept.in_use
        assert kept.counts()["closes"] == 1
        assert not other.in_use
        other.close()


def test_sinks_live_as_long_as_the_thread_may_use_them() -> None:
    class Marked(FakeSink):
        pass

    with Player() as player:
        refs = []
        for _ in range(20):
            sink = Marked(speed=0, keep_open_ms=0)
            refs.append(weakref.ref(sink))
            player.wait(player.say(sink, noise(100)), "finished")
        del sink
        player.playout.set_sink(None)
        player.pipe.next_generation()
        player.playout.set_sink(None)
        gc.collect()
        assert [r for r in refs if r() is not None] == []


def test_pause_holds_a_start_back() -> None:
    sink = FakeSink(speed=0, capture=5000)
    with Player() as player:
        player.pipe.set_paused(True)
        generation = player.say(sink, noise(5000))
        time.sleep(0.05)
        assert not player.named(generation)
        player.pipe.set_paused(False)
        player.wait(generation, "finished")
    assert sink.heard() == noise(5000).tobytes()


def test_pause_again_and_again() -> None:
    pcm = noise(24_000)
    sink = FakeSink(speed=4, capture=50_000)
    with Player() as player:
        generation = player.say(sink, pcm)
        player.wait(generation, "started")
        for i in range(60):
            player.pipe.set_paused(i % 2 == 0)
            time.sleep(0.003)
        assert player.wait(generation, "finished")[3] == len(pcm)
        assert sink.counts()["pauses"] > 10
    assert sink.heard() == pcm.tobytes()


def test_a_pause_longer_than_the_stall_limit_is_no_error() -> None:
    with Player() as player:
        generation = player.say(FakeSink(speed=1, stall_ms=100), noise(9600))
        player.wait(generation, "started")
        player.pipe.set_paused(True)
        time.sleep(0.4)
        player.pipe.set_paused(False)
        assert player.wait(generation, "finished", "device")[0] == "finished"


def test_stop_while_playing() -> None:
    sink = FakeSink(speed=1)
    player = Player()
    generation = player.begin(sink)
    player.push(generation, noise(48_000))
    player.wait(generation, "started")
    asked = time.monotonic()
    player.stop()
    assert time.monotonic() - asked < 0.1
    assert not sink.in_use
    assert sink.counts()["closes"] == 1


def test_run_twice_is_refused() -> None:
    with Player() as player:
        time.sleep(0.05)
        with pytest.raises(RuntimeError, match="runs already"):
            player.playout.run()


def test_values_out_of_range_are_named() -> None:
    for options in ({"preroll_ms": -1}, {"postroll_ms": 10_001}):
        with pytest.raises(ValueError, match=f"{next(iter(options))}: .* given, 0 to 5000 allowed"):
            Playout(Pipe(16, 1920), **options)
    with pytest.raises(ValueError, match="buffer: 0 given, 1 to"):
        FakeSink(buffer=0)
    with pytest.raises(ValueError, match="speed"):
        FakeSink(speed=-1.0)


@pytest.mark.parametrize("state", ["never used", "kept open", "failed", "paused", "dry pipe"])
def test_idle_costs_nothing(state: str) -> None:
    with Player() as player:
        if state == "kept open":
            player.wait(player.say(FakeSink(speed=0, keep_open_ms=-1), noise(1000)), "finished")
        elif state == "failed":
            player.wait(player.say(FakeSink(open_errno=errno.EBUSY), noise(1000)), "device")
        elif state == "paused":
            player.wait(player.say(FakeSink(), noise(24_000)), "started")
            player.pipe.set_paused(True)
        elif state == "dry pipe":
            r, w = os.pipe()
            generation = player.begin(FdSink(w))
            player.push(generation, noise(1000))
            player.wait(generation, "started")
        time.sleep(0.05)
        beat, before = player.pipe.counters()["playout_beat"], switches_of(player.thread)
        time.sleep(0.4)
        assert player.pipe.counters()["playout_beat"] == beat, "the thread was awake"
        assert switches_of(player.thread) == before
        player.pipe.set_paused(state == "paused")  # wakes the thread
        time.sleep(0.02)
        assert player.pipe.counters()["playout_beat"] > beat
        if state == "dry pipe":
            os.close(r)


def test_playing_wakes_the_thread_a_few_times_a_period_at_most() -> None:
    with Player() as player:
        generation = player.say(FakeSink(), noise(24_000))
        player.wait(generation, "finished")
        assert player.pipe.counters()["playout_beat"] < 250


def test_a_thousand_utterances_leave_nothing_behind() -> None:
    pcm = noise(3000)
    sink = FakeSink(speed=0, keep_open_ms=0)
    with Player() as player:

        def speak(n: int) -> None:
            for i in range(n):
                generation = player.begin(sink if i % 2 else FdSink(os.open("/dev/null", os.O_WRONLY)))
                player.push(generation, pcm)
                if i % 3:
                    player.pipe.push_end(generation)
                    player.wait(generation, "finished")
                player.seen.clear()

        speak(100)
        gc.collect()
        fds, memory = len(os.listdir("/proc/self/fd")), rss_kb()
        speak(1000)
        player.playout.set_sink(sink)
        player.pipe.next_generation()
        time.sleep(0.05)
        gc.collect()
        assert abs(len(os.listdir("/proc/self/fd")) - fds) <= 1
        assert rss_kb() - memory < 1024
