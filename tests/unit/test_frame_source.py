"""Frames may come from anywhere: what a source owes the pipeline, with one that reads a socket."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from engine_rig import SIZES, Rig, drive, expected_pcm, with_config
from engine_rig import frame as scripted
from socket_frames import DecoderOnly, Peer, Script

from cython_kernels.fake_sink import FakeSink
from cython_kernels.frames import FrameGate
from cython_kernels.pipe import ITEM_FRAME, ITEM_SEG_BEGIN, ITEM_SEG_END
from cython_kernels.probe import PipeEnds
from edgettsd.config import Config
from edgettsd.engine._api import Reason, SpeakOptions, State
from edgettsd.engine.parts import FakeParts
from edgettsd.engine.plan import sentences
from edgettsd.engine.sources import LocalFrames, Order
from edgettsd.families.qwen3_tts.parts import QwenParts
from edgettsd.models import default
from edgettsd.models.store import open_bundle

TEXT = "One sentence. Another sentence! And the third?"
LONG = "A sentence that is long enough for many frames, because the estimate bounds what a source may send."
SPF = 1920


def codes(frame: int) -> list[int]:
    """What the scripted talker and predictor give."""
    return scripted(frame)


def say_with(parts: FakeParts | DecoderOnly) -> bytes:
    """What is heard of two utterances, the last with another volume."""

    async def test(rig: Rig) -> None:
        assert await rig.ended(rig.say(TEXT)) is Reason.COMPLETED
        last = rig.say(TEXT, volume=0.5)
        assert await rig.ended(last) is Reason.COMPLETED
        assert rig.stats[last]["frames"] == 75 and rig.stats[last]["sentences"] == 3

    return drive(test, parts=parts, sink=FakeSink(speed=50, buffer=1 << 16, capture=1 << 22)).sink.heard()


@pytest.mark.parametrize("cut", [None, 1, 2])
def test_the_samples_are_those_of_the_local_generator(cut: int | None) -> None:
    peer = Peer(SIZES.groups, Script(codes, cut=cut))
    parts = DecoderOnly(peer)
    assert not hasattr(parts, "talker")
    heard = say_with(parts)
    assert heard == say_with(FakeParts()) and len(heard) > 2 * 6 * 25 * SPF
    assert [asked["text"] for asked in peer.asked[:3]] == re.findall(r"\w[^.!?]*.", TEXT)
    assert [asked["index"] for asked in peer.asked] == [0, 1, 2] * 2
    assert len({asked["seed"] for asked in peer.asked}) == 2


def test_the_built_in_voice_sounds_the_same_without_its_talker() -> None:
    """The real decoder: the voice's own codes, through the socket."""
    config = Config().updated({"model": {"path": str(default.BUILT_IN)}}, "test")
    text = "Codes are all that a decoder needs."
    bundle = open_bundle(str(default.BUILT_IN))
    local = QwenParts(bundle, config)
    groups = local.info.groups
    pipe = PipeEnds(groups, local.info.samples_per_frame, local.info.sample_rate, backpressure_seconds=100)
    generation = pipe.next_generation()
    (sentence,) = sentences(text, local.info.frame_seconds, lambda part: local.frames(part, SpeakOptions()))
    result = LocalFrames(pipe, local).segment(Order(generation, 0, sentence, SpeakOptions(), 5, 1000))
    assert result["reason"] == "completed" and result["frames"] > 10
    items = []
    while (item := pipe.pop_item()) is not None:
        items.append(item)
    assert items[0][1] == ITEM_SEG_BEGIN
    drop = items[0][3]
    made = [item[4] for item in items if item[1] == ITEM_FRAME]

    class Elsewhere(QwenParts):
        """The same bundle on a device that loads no talker."""

        source = DecoderOnly.source
        _peer = Peer(groups, Script(lambda k: made[k], frames=len(made), cut=3))
        _stall, _drop = 10.0, drop

        def talker(self) -> None:  # type: ignore[override]
            raise AssertionError("the talker is elsewhere")

        predictor = talker  # type: ignore[assignment]

    heard = []
    for parts in (local, Elsewhere(bundle, config)):

        async def test(rig: Rig) -> None:
            assert await rig.ended(rig.say(text, seed=5)) is Reason.COMPLETED

        sink = FakeSink(speed=0, buffer=1 << 16, capture=1 << 22)
        heard.append(drive(test, parts=parts, sink=sink, config=config).sink.heard())
    assert len(heard[0]) > 10 * SPF and heard[0] == heard[1]


def test_a_peer_that_dies_ends_the_utterance_and_the_next_one_speaks() -> None:
    peer = Peer(SIZES.groups, Script(codes, dies_at=10), Script(codes))

    async def test(rig: Rig) -> None:
        first = rig.say("Hello.")
        assert await rig.ended(first) is Reason.ERROR
        assert rig.stats[first]["detail"] == "the peer has gone after 10 frames"
        assert rig.engine.state is State.IDLE
        assert await rig.ended(rig.say("Hello.")) is Reason.COMPLETED

    heard = drive(test, parts=DecoderOnly(peer)).sink.heard()
    assert heard.endswith(expected_pcm(25))


def test_a_peer_that_falls_silent_is_given_up_and_nothing_else_notices() -> None:
    """The loop runs and the watchdog is fed meanwhile; the source itself gives up."""
    peer = Peer(SIZES.groups, Script(codes, stalls_at=5), Script(codes))
    parts = DecoderOnly(peer, stall_seconds=1.0)

    async def test(rig: Rig) -> None:
        pipeline = rig.engine._pipeline
        assert pipeline is not None
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1
                assert rig.engine.heartbeat()

        ticking = asyncio.create_task(tick())
        first = rig.say("Hello.")
        await rig.until(lambda: peer.sent >= 4)
        before, beats = ticks, pipeline.pipe.counters()["generator_beat"]
        assert await rig.ended(first) is Reason.ERROR
        assert rig.stats[first]["detail"] == "nothing came from the peer for 1 s"
        assert ticks > before and pipeline.pipe.counters()["generator_beat"] > beats + 2
        ticking.cancel()
        assert await rig.ended(rig.say("Hello.")) is Reason.COMPLETED
        assert parts.made is not None and threading.get_ident() not in parts.made.threads

    drive(test, parts=parts)


def test_a_stall_that_ends_in_time_loses_nothing() -> None:
    script = Script(codes, stalls_at=12)
    peer = Peer(SIZES.groups, script)

    async def test(rig: Rig) -> None:
        utterance = rig.say("Hello.")
        await rig.until(lambda: rig.sink.counts()["heard"] >= 4 * SPF)
        await asyncio.sleep(0.3)
        script.go.set()
        assert await rig.ended(utterance) is Reason.COMPLETED
        shares = rig.engine.stats()["attribution"]
        assert shares["network"] >= 200 and shares["talker"] == shares["predictor"] == 0

    sink = FakeSink(speed=20, buffer=1 << 16, capture=1 << 22)
    heard = drive(test, parts=DecoderOnly(peer), sink=sink).sink.heard()
    # Where it ran dry there is silence in between, and nothing is lost or repeated.
    sounds, all_of_it = (np.frombuffer(pcm, "<i2") for pcm in (heard, expected_pcm(25)))
    assert np.count_nonzero(sounds) >= np.count_nonzero(all_of_it)
    assert heard.endswith(expected_pcm(25)[2 * 12 * SPF :])


def test_an_abort_while_the_socket_is_waited_for_is_told_to_the_peer() -> None:
    peer = Peer(SIZES.groups, Script(codes, stalls_at=3), Script(codes))

    async def test(rig: Rig) -> None:
        first = rig.say("Hello.")
        await rig.until(lambda: peer.sent >= 2)
        rig.engine.abort(first, "a")
        assert await rig.ended(first) is Reason.ABORTED
        # Long before the peer would be given up.
        await asyncio.to_thread(peer.cancelled.wait, 5)
        assert peer.cancelled.is_set()
        assert await rig.ended(rig.say("Hello.")) is Reason.COMPLETED

    assert drive(test, parts=DecoderOnly(peer, stall_seconds=60)).sink.heard().endswith(expected_pcm(25))


def test_stopping_does_not_wait_for_the_socket() -> None:
    peer = Peer(SIZES.groups, Script(codes, stalls_at=3))

    async def test(rig: Rig) -> None:
        rig.say("Hello.")
        await rig.until(lambda: peer.sent >= 2)

    t0 = time.monotonic()
    drive(test, parts=DecoderOnly(peer, stall_seconds=60))
    assert time.monotonic() - t0 < 30 and peer.left.wait(5)


def test_a_peer_that_is_too_fast_is_held_back_by_its_socket() -> None:
    peer = Peer(SIZES.groups, Script(codes, frames=100_000))

    async def test(rig: Rig) -> None:
        utterance = rig.say(LONG, max_seconds=3600)
        pipe = rig.engine._pipeline.pipe  # type: ignore[union-attr]
        limit = 2 * 12.5 + 1
        await rig.until(lambda: pipe.pending_frames + pipe.buffered / SPF >= limit - 2)
        sent = -1
        while sent != peer.sent:
            sent = peer.sent
            await asyncio.sleep(0.3)
        # What is in the pipe, in the source's hand and in the socket; far from all that there is.
        assert sent < 3000
        rig.engine.abort(utterance, "a")
        assert await rig.ended(utterance) is Reason.ABORTED
        await asyncio.to_thread(peer.left.wait, 5)
        assert peer.left.is_set()

    slow = FakeSink(speed=0.01, capture=1 << 20)
    drive(test, parts=DecoderOnly(peer), sink=slow, config=with_config(max_seconds=3600))


@pytest.mark.parametrize(
    ("script", "levels", "reason", "detail"),
    [
        (Script(lambda k: [7] * SIZES.groups, frames=5000), (), Reason.RUNAWAY, "the model repeats itself"),
        (Script(codes, frames=5000), [0] * 8 + [13], Reason.RUNAWAY, "the model says nothing"),
        (Script(codes, frames=5000), (), Reason.LIMIT, "the longest allowed speech for this text"),
        (Script(codes, reason="limit"), (), Reason.LIMIT, "the longest allowed speech for this text"),
    ],
)
def test_what_finds_no_end_is_stopped_whoever_makes_it(
    script: Script, levels: list[int], reason: Reason, detail: str
) -> None:
    peer = Peer(SIZES.groups, script)

    async def test(rig: Rig) -> None:
        utterance = rig.say("Hello there.")
        assert await rig.ended(utterance) is reason
        assert detail in rig.stats[utterance]["detail"]
        assert rig.stats[utterance]["frames"] < 1000

    drive(test, parts=DecoderOnly(peer, levels=levels), sink=FakeSink(speed=0))


def test_max_seconds_bounds_frames_from_elsewhere() -> None:
    async def test(rig: Rig) -> None:
        utterance = rig.say("Hello there.", max_seconds=0.8)
        assert await rig.ended(utterance) is Reason.LIMIT
        assert rig.stats[utterance]["frames"] == 10

    drive(test, parts=DecoderOnly(Peer(SIZES.groups, Script(codes))))


@pytest.mark.parametrize(
    ("script", "detail"),
    [
        (Script(codes, gap_at=7), "frames are missing after number "),
        (Script(lambda k: [*codes(k)[:3], 2150, *codes(k)[4:]]), "code 2150; allowed is 0 to 2149"),
        (Script(lambda k: [-1, *codes(k)[1:]]), "frame 0, codebook 0: code -1; allowed is 0 to 2149"),
        (Script(codes, reason="error"), "frame loop: ok at frame 25"),
    ],
)
def test_what_cannot_be_played_is_refused_by_name(script: Script, detail: str) -> None:
    async def test(rig: Rig) -> None:
        utterance = rig.say("Hello.")
        assert await rig.ended(utterance) is Reason.ERROR
        assert detail in rig.stats[utterance]["detail"]

    drive(test, parts=DecoderOnly(Peer(SIZES.groups, script)))


# --- the gate alone ---------------------------------------------------------------------------------------


def gate_of(**bounds: int) -> tuple[PipeEnds, FrameGate]:
    pipe = PipeEnds(2, 10, 24000)
    gate = FrameGate(pipe, entries=50)
    assert not gate.open and not gate.push(np.zeros((1, 2), np.int16))
    assert gate.begin(pipe.next_generation(), **{"max_frames": 10} | bounds) and gate.open
    return pipe, gate


def items(pipe: PipeEnds) -> list[tuple[int, int, list[int]]]:
    found = []
    while (item := pipe.pop_item()) is not None:
        found.append((item[1], item[3], item[4]))
    return found


def test_the_gate_hands_on_frames_and_ends_once() -> None:
    pipe, gate = gate_of(drop_frames=3)
    assert gate.push(np.array([[1, 2], [3, 4]], np.int16)) and gate.push(np.zeros((0, 2), np.int16))
    result = gate.finish()
    assert (result["frames"], result["reason"], result["error"]) == (2, "completed", "ok")
    found = items(pipe)
    assert [kind for kind, _, _ in found] == [ITEM_SEG_BEGIN, ITEM_FRAME, ITEM_FRAME, ITEM_SEG_END]
    assert found[0][1] == 3 and [c for _, _, c in found[1:3]] == [[1, 2], [3, 4]]
    assert not gate.open and not gate.push(np.zeros((1, 2), np.int16))


def test_a_frame_costs_the_time_between_arrivals() -> None:
    pipe, gate = gate_of()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert gate.push(np.zeros((1, 2), np.int16))
        time.sleep(0.06)
        theirs.send(b"x")
        assert gate.wait(ours.fileno(), 10)
        assert gate.push(np.array([[1, 1], [2, 2], [3, 3]], np.int16))
        assert not gate.wait(theirs.fileno(), 0.02) and gate.open
    costs = [arg for kind, arg, _ in items(pipe) if kind == ITEM_FRAME]
    # The first is not known: it had to be asked for. Three that came at once share the time.
    assert costs[0] == 0 and costs[1:] == [costs[1]] * 3 and costs[1] >= 20_000
    assert gate.finish()["network_ns"] > 0


def test_waiting_for_room_is_no_cost() -> None:
    pipe, gate = gate_of(max_frames=10_000)
    thread = threading.Thread(target=lambda: (time.sleep(0.2), items(pipe)))
    # 2 s at 10 samples a frame are 4800 frames, and the ring holds 1024 items.
    assert gate.push(np.zeros((1000, 2), np.int16))
    thread.start()
    assert gate.push(np.zeros((50, 2), np.int16))
    thread.join()
    assert gate.push(np.zeros((1, 2), np.int16))
    assert gate.finish()["wait_ns"] >= 100_000_000
    last = [arg for kind, arg, _ in items(pipe) if kind == ITEM_FRAME][-1]
    assert last < 100_000


def test_the_gate_ends_with_limit_and_with_repetition() -> None:
    _, gate = gate_of(max_frames=3)
    assert not gate.push(np.arange(8, dtype=np.int16).reshape(4, 2))
    assert gate.finish()["reason"] == "limit"
    _, gate = gate_of(max_frames=100, repeat_frames=4, repeat_period=2)
    assert not gate.push(np.array([[1, 0], [2, 0]] * 20, np.int16))
    result = gate.finish("completed")
    assert (result["reason"], result["error"], result["frames"]) == ("runaway", "ok", 6)


def test_an_abort_ends_a_wait_at_once_and_shows_life_until_then() -> None:
    pipe, gate = gate_of()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        beats = pipe.counters()["generator_beat"]
        threading.Timer(0.7, pipe.next_generation).start()
        t0 = time.monotonic()
        assert not gate.wait(ours.fileno(), 60)
        assert time.monotonic() - t0 < 30 and not gate.open
        assert pipe.counters()["generator_beat"] >= beats + 3
    assert gate.finish()["reason"] == "aborted"
    assert not gate.begin(pipe.generation - 1, max_frames=1) and gate.finish()["error"] == "stale"
    pipe.stop()
    assert not gate.begin(pipe.generation, max_frames=1) and gate.finish()["error"] == "stopped"


def test_the_gate_refuses_what_is_out_of_range() -> None:
    pipe, gate = gate_of()
    with pytest.raises(ValueError, match="a frame has 3 codes: 2 expected"):
        gate.push(np.zeros((1, 3), np.int16))
    with pytest.raises(ValueError, match="frame 1, codebook 1: code 50; allowed is 0 to 49"):
        gate.push(np.array([[0, 0], [0, 50]], np.int16))
    assert [kind for kind, _, _ in items(pipe)] == [ITEM_SEG_BEGIN], "none of them is played"
    with pytest.raises(ValueError, match="max_frames is 0"):
        gate.begin(1, max_frames=0)
    with pytest.raises(ValueError, match="entries is 0"):
        FrameGate(pipe, entries=0)


def test_no_other_file_of_the_hot_path_knows_the_sources() -> None:
    """Decoder, schedule and playout include neither the generator nor the gate."""
    folder = Path(__file__).resolve().parents[2] / "cython_kernels"
    for path in folder.glob("*/et_*.[ch]"):
        if path.stem.startswith(("et_decode", "et_schedule", "et_playout", "et_pipe", "et_sink")):
            text = path.read_text(encoding="utf-8")
            assert "et_frames.h" not in text and "et_generate.h" not in text, path.name
