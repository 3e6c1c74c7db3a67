"""The pipe between the threads: rings, blocks, generations, backpressure."""

from __future__ import annotations

import mmap
import platform
import random
import threading
import time

import numpy as np
import pytest

from cython_kernels.pipe import (
    BLOCK_END,
    BLOCK_PCM,
    ITEM_END,
    ITEM_FRAME,
    ITEM_SEG_BEGIN,
    use_huge_pages,
)
from cython_kernels.probe import PipeEnds


def codes(n: int, groups: int = 16) -> list[int]:
    return [(n * 31 + g) % 2048 for g in range(groups)]


def as_s16(pcm: np.ndarray) -> bytes:
    return np.clip(np.rint(pcm * 32768.0), -32768, 32767).astype("<i2").tobytes()


def test_items_keep_their_order_and_content() -> None:
    pipe = PipeEnds(16, 1920)
    gen = pipe.next_generation()
    assert pipe.push_item(gen, ITEM_SEG_BEGIN, arg=3) == "ok"
    for n in range(5):
        assert pipe.push_item(gen, ITEM_FRAME, codes=codes(n)) == "ok"
    assert pipe.push_item(gen, ITEM_END, reason=1) == "ok"
    assert pipe.pending_frames == 5
    assert pipe.pop_item()[:4] == (gen, ITEM_SEG_BEGIN, 0, 3)
    for n in range(5):
        assert pipe.pop_item()[4] == codes(n)
    assert pipe.pending_frames == 0
    assert pipe.pop_item()[:3] == (gen, ITEM_END, 1)
    assert pipe.pop_item() is None


def test_stale_items_and_blocks_are_thrown_away() -> None:
    pipe = PipeEnds(16, 1920)
    old = pipe.next_generation()
    pipe.push_item(old, ITEM_FRAME, codes=codes(1))
    pipe.push_pcm(old, np.full(100, 0.25, np.float32))
    pipe.push_end(old)
    new = pipe.next_generation()
    assert pipe.push_item(old, ITEM_FRAME, codes=codes(2)) == "stale"
    assert pipe.push_pcm(old, np.zeros(10, np.float32)) == "stale"
    assert pipe.push_end(old) == "stale"
    pipe.push_item(new, ITEM_FRAME, codes=codes(3))
    pipe.push_pcm(new, np.full(7, 0.5, np.float32))
    assert pipe.pop_item()[4] == codes(3)
    assert pipe.pending_frames == 0
    assert pipe.front() == (new, BLOCK_PCM, 0, 7)
    assert pipe.read(100) == as_s16(np.full(7, 0.5))
    assert pipe.front() is None
    assert pipe.buffered == 0


def test_samples_round_and_clip() -> None:
    pipe = PipeEnds(16, 1920)
    gen = pipe.next_generation()
    x = np.array([0.0, 1.0, -1.0, 2.0, -2.0, 0.5 / 32768, 1.5 / 32768, np.nan, np.inf, -np.inf], np.float32)
    pipe.push_pcm(gen, x)
    assert np.frombuffer(pipe.read(20), "<i2").tolist() == [
        0,
        32767,
        -32768,
        32767,
        -32768,
        0,
        2,
        0,
        32767,
        -32768,
    ]


def test_gain_scales_the_live_utterance() -> None:
    pipe = PipeEnds(16, 1920)
    gen = pipe.next_generation()
    pipe.set_gain(0.5)
    pipe.push_pcm(gen, np.full(4, 0.5, np.float32))
    assert np.frombuffer(pipe.read(4), "<i2").tolist() == [8192] * 4


def test_blocks_are_read_in_any_portions() -> None:
    pipe = PipeEnds(16, 1920)
    gen = pipe.next_generation()
    x = (np.arange(5000) % 1000 / 1000 - 0.5).astype(np.float32)
    for part in np.split(x, [1, 10, 1930, 1931, 4000]):
        assert pipe.push_pcm(gen, part) == "ok"
    pipe.push_end(gen, 5)
    rng, got = random.Random(1), b""
    while pipe.front()[1] == BLOCK_PCM:
        got += pipe.read(rng.randrange(1, 700))
    assert got == as_s16(x)
    assert pipe.front() == (gen, BLOCK_END, 5, 0)
    pipe.consume_end()
    assert pipe.front() is None


def test_a_push_larger_than_the_ring_passes_while_it_is_read() -> None:
    pipe = PipeEnds(16, 1920, pcm_seconds=0.05)
    gen = pipe.next_generation()
    x = np.random.default_rng(1).uniform(-1, 1, 20_000).astype(np.float32)
    results: list[str] = []
    thread = threading.Thread(target=lambda: results.append(pipe.push_pcm(gen, x)))
    thread.start()
    got = b""
    deadline = time.monotonic() + 10
    while len(got) < 40_000 and time.monotonic() < deadline:
        got += pipe.read(777) if pipe.front() else b""
    thread.join(5)
    assert results == ["ok"]
    assert got == as_s16(x)


@pytest.mark.parametrize("action, result", [("next_generation", "stale"), ("stop", "stopped")])
def test_a_waiting_producer_is_released(action: str, result: str) -> None:
    pipe = PipeEnds(16, 1920, backpressure_seconds=0.2)
    gen = pipe.next_generation()
    results: list[str] = []

    def produce() -> None:
        n = 0
        while (r := pipe.push_item(gen, ITEM_FRAME, codes=codes(n))) == "ok":
            n += 1
        results.extend([r, str(n)])

    thread = threading.Thread(target=produce)
    thread.start()
    time.sleep(0.1)
    assert thread.is_alive()
    start = time.monotonic()
    getattr(pipe, action)()
    thread.join(5)
    assert time.monotonic() - start < 0.1
    # 0.2 s at 80 ms a frame: the third frame crosses the limit, the fourth waits.
    assert results == [result, "3"]


def test_backpressure_counts_queued_codes_and_samples() -> None:
    pipe = PipeEnds(16, 1920, backpressure_seconds=1.0)
    gen = pipe.next_generation()
    pipe.push_silence(gen, 24_000)
    done = threading.Event()

    def produce() -> None:
        pipe.push_item(gen, ITEM_FRAME, codes=codes(0))
        done.set()

    thread = threading.Thread(target=produce)
    thread.start()
    assert not done.wait(0.1)
    pipe.front()
    pipe.read(1)
    assert done.wait(1)
    thread.join()


def test_two_threads_a_million_samples_with_aborts() -> None:
    """Samples read are always a prefix of what their generation pushed, whatever the abort hits."""
    pipe = PipeEnds(16, 1920, pcm_seconds=0.1)
    state = {"gen": pipe.next_generation(), "run": True}

    def produce() -> None:
        while state["run"]:
            gen = state["gen"]
            for n in range(20):
                x = np.full(257, ((gen * 20 + n) % 30000) / 32768, np.float32)
                if pipe.push_pcm(gen, x) != "ok":
                    break
            else:
                pipe.push_end(gen)
                while state["run"] and state["gen"] == gen:
                    time.sleep(0.0002)

    producer = threading.Thread(target=produce)
    producer.start()
    rng, checked = random.Random(3), 0
    for _ in range(300):
        gen, samples = state["gen"], []
        stop_at = rng.randrange(1, 6000)
        deadline = time.monotonic() + 5
        while len(samples) < stop_at and time.monotonic() < deadline:
            front = pipe.front()
            if front is None:
                continue
            assert front[0] == gen
            if front[1] == BLOCK_END:
                pipe.consume_end()
                break
            samples.extend(np.frombuffer(pipe.read(rng.randrange(1, 500)), "<i2").tolist())
        expected = np.repeat([(gen * 20 + n) % 30000 for n in range(20)], 257)[: len(samples)]
        assert samples == expected.tolist()
        checked += len(samples)
        state["gen"] = pipe.next_generation()
    state["run"] = False
    pipe.stop()
    producer.join(5)
    assert checked > 100_000


def test_bad_sizes_are_refused_with_their_values() -> None:
    with pytest.raises(ValueError, match="groups=33"):
        PipeEnds(33, 1920)
    with pytest.raises(ValueError, match="samples_per_frame=0"):
        PipeEnds(16, 0)
    with pytest.raises(ValueError, match="3 given, 16 expected"):
        pipe = PipeEnds(16, 1920)
        pipe.push_item(pipe.next_generation(), ITEM_FRAME, codes=[1, 2, 3])


def small_pages() -> int:
    """Regions of this process that the kernel keeps from huge pages (an emulator may not pass that on)."""
    with open("/proc/self/smaps", encoding="ascii", errors="replace") as file:
        return sum("nh" in line.split() for line in file if line.startswith("VmFlags:"))


def test_memory_for_which_small_pages_were_asked_keeps_them() -> None:
    size = 64 << 20
    with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        before, regions = use_huge_pages(size), small_pages()
        block.madvise(mmap.MADV_NOHUGEPAGE)
        told = small_pages() > regions
        assert before - use_huge_pages(size) >= (size - (4 << 20) if before and told else 0)
        assert told or platform.machine() != "x86_64"


def test_huge_pages_keep_contents_and_leave_untouched_memory_alone() -> None:
    from pathlib import Path

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    used = np.arange(5 << 20, dtype=np.int64)
    empty = np.zeros(1 << 28, np.uint8)
    before = resident()
    asked = use_huge_pages(32 << 20)
    offered = "never]" not in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    assert (asked >= used.nbytes - (4 << 20)) == offered
    assert np.array_equal(used, np.arange(5 << 20, dtype=np.int64))
    assert resident() - before < 32 << 20 and not empty[:: 1 << 21].any()
