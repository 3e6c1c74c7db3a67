"""Descriptor sink: pipes, sockets, files; closed, slow and stalled readers."""

from __future__ import annotations

import errno
import os
import signal
import socket
import struct
import threading
import time
import wave
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from audio_rigs import Player

from cython_kernels.playout import FdSink

pytest_plugins = ("audio_rigs",)


def noise(n: int, seed: int = 0) -> npt.NDArray[np.int16]:
    return np.random.default_rng(seed).integers(-32768, 32768, n).astype(np.int16)


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


class Reader:
    """Reads a descriptor to its end in a thread, `piece` bytes each `pause` seconds."""

    def __init__(self, fd: int, piece: int = 65536, pause: float = 0.0) -> None:
        self.data = bytearray()
        self._args = (fd, piece, pause)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        fd, piece, pause = self._args
        while part := os.read(fd, piece):
            self.data += part
            if pause:
                time.sleep(pause)
        os.close(fd)

    def all(self) -> bytes:
        self._thread.join(20)
        assert not self._thread.is_alive(), "the stream has no end"
        return bytes(self.data)


@pytest.mark.parametrize("pause", [0.0, 0.003])
def test_a_pipe_gets_every_sample_and_its_end(pause: float) -> None:
    r, w = os.pipe()
    reader = Reader(r, 3000, pause)
    pcm = noise(200_001)
    with Player() as player:
        generation = player.say(FdSink(w), pcm, (1920, 7680))
        assert player.wait(generation, "finished")[2:4] == ("completed", len(pcm))
        assert not is_open(w), "closed before the event"
    assert reader.all() == pcm.tobytes()


def test_a_descriptor_that_is_not_the_sinks_stays_open(tmp_path: Path) -> None:
    with (tmp_path / "out.raw").open("wb") as file, Player() as player:
        player.wait(player.say(FdSink(file.fileno(), close_fd=False), noise(5000)), "finished")
        assert is_open(file.fileno())
    assert (tmp_path / "out.raw").read_bytes() == noise(5000).tobytes()


def test_the_start_policy_does_not_hold_back_a_descriptor() -> None:
    r, w = os.pipe()
    with Player(start_ms=3000) as player:
        generation = player.begin(FdSink(w))
        player.push(generation, noise(1920))
        player.wait(generation, "started", timeout=2)
        assert os.read(r, 65536) == noise(1920).tobytes()
        player.pipe.push_end(generation)
        player.wait(generation, "finished")
        assert not player.named(generation, "underrun"), "a pipe that waits for samples is no underrun"
    os.close(r)


def test_the_shared_description_is_left_as_it_is() -> None:
    r, w = os.pipe()
    ours = os.dup(w)
    reader = Reader(r)
    with Player() as player:
        generation = player.say(FdSink(w), noise(50_000))
        player.wait(generation, "finished")
    assert os.get_blocking(ours)
    os.close(ours)
    reader.all()


def test_a_reader_that_leaves_ends_the_utterance() -> None:
    # The default action of SIGPIPE would end this process: the thread must not let it come to that.
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        r, w = os.pipe()
        with Player() as player:
            generation = player.begin(FdSink(w))
            player.push(generation, noise(40_000))
            player.wait(generation, "started")
            os.close(r)
            assert player.wait(generation, "device")[2:4] == ("device", -errno.EPIPE)
            assert not is_open(w)
            # What still comes is thrown away without anyone waiting.
            assert player.push(generation, noise(300_000)) == "ok"
            player.pipe.push_end(generation)
            time.sleep(0.05)
            assert player.pipe.buffered == 0
            assert [e[0] for e in player.named(generation)] == ["started", "device"]
        time.sleep(0.05)
    finally:
        signal.signal(signal.SIGPIPE, before)


def test_a_reader_that_leaves_between_samples_is_noticed_at_once() -> None:
    r, w = os.pipe()
    with Player() as player:
        generation = player.begin(FdSink(w))
        player.push(generation, noise(1920))
        player.wait(generation, "started")
        os.close(r)
        assert player.wait(generation, "device", timeout=2)[3] == -errno.EPIPE


def test_abort_of_a_writer_to_a_reader_that_does_not_read() -> None:
    r, w = os.pipe()
    with Player() as player:
        generation = player.begin(FdSink(w))
        player.push(generation, noise(90_000))
        player.wait(generation, "started")
        time.sleep(0.1)
        asked = time.monotonic_ns()
        player.pipe.next_generation()
        dropped = player.wait(generation, "dropped")
        assert dropped[4] - asked < 50_000_000
        assert not is_open(w)
    got = Reader(r).all()
    # What the pipe took is the beginning of the speech, and all of it is accounted for.
    assert noise(90_000).tobytes().startswith(got)
    assert len(got) // 2 == dropped[3]


def test_a_stalled_reader_is_an_error_after_the_time_that_was_set() -> None:
    r, w = os.pipe()
    with Player() as player:
        asked = time.monotonic()
        generation = player.begin(FdSink(w, stall_ms=200))
        player.push(generation, noise(90_000))
        assert player.wait(generation, "device")[3] == -errno.ETIMEDOUT
        assert 0.2 < time.monotonic() - asked < 0.8
    os.close(r)


def test_a_socket_does_not_block_and_its_end_is_an_error() -> None:
    ours, theirs = socket.socketpair()
    with ours, Player() as player:
        generation = player.begin(FdSink(theirs.detach()))
        threading.Thread(target=player.push, args=(generation, noise(500_000)), daemon=True).start()
        assert ours.recv(1000, socket.MSG_WAITALL) == noise(500_000).tobytes()[:1000]
        time.sleep(0.2)
        asked = time.monotonic_ns()
        ours.close()
        device = player.wait(generation, "device")
        assert device[3] == -errno.EPIPE
        assert device[4] - asked < 100_000_000


def test_a_socket_gets_everything() -> None:
    ours, theirs = socket.socketpair()
    reader = Reader(ours.detach(), 5000, 0.001)
    pcm = noise(100_001)
    with Player() as player:
        player.wait(player.say(FdSink(theirs.detach(), "wav"), pcm), "finished")
    assert reader.all()[44:] == pcm.tobytes()


def test_a_wav_file_has_its_sizes(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    pcm = noise(30_001)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    with Player() as player:
        player.wait(player.say(FdSink(fd, "wav"), pcm), "finished")
        assert not is_open(fd)
    with wave.open(str(path)) as w:
        assert (w.getnchannels(), w.getsampwidth(), w.getframerate()) == (1, 2, 24_000)
        assert w.getnframes() == len(pcm)
        assert w.readframes(len(pcm)) == pcm.tobytes()
    assert path.stat().st_size == 44 + 2 * len(pcm)


def test_several_utterances_in_one_wav_file(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    sink = FdSink(fd, "wav", keep=True)
    with Player() as player:
        for n in (1, 2, 3):
            player.wait(player.say(sink, noise(1000 * n, n)), "finished")
            with wave.open(str(path)) as w:
                assert w.getnframes() == sum(1000 * k for k in range(1, n + 1))
        sink.close()
        assert not is_open(fd)
    assert path.read_bytes()[44:] == b"".join(noise(1000 * n, n).tobytes() for n in (1, 2, 3))


def test_an_aborted_wav_file_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with Player() as player:
        generation = player.begin(FdSink(os.open(path, os.O_WRONLY | os.O_CREAT), "wav"))
        player.push(generation, noise(30_000))
        player.wait(generation, "started")
        player.pipe.next_generation()
        heard = player.wait(generation, "dropped")[3]
    with wave.open(str(path)) as w:
        assert w.readframes(1 << 20) == noise(30_000)[:heard].tobytes()


def test_a_wav_stream_says_to_the_end() -> None:
    r, w = os.pipe()
    reader = Reader(r)
    with Player() as player:
        player.wait(player.say(FdSink(w, "wav", rate=24_000), noise(5000)), "finished")
    data = reader.all()
    assert data[:4] + data[8:16] == b"RIFFWAVEfmt "
    assert struct.unpack("<I", data[4:8]) == struct.unpack("<I", data[40:44]) == (0xFFFFFFFF,)
    assert struct.unpack("<IHHIIHH", data[16:36]) == (16, 1, 1, 24_000, 48_000, 2, 16)
    assert data[44:] == noise(5000).tobytes()


def test_appending_does_not_patch_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"before")
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    with Player() as player:
        player.wait(player.say(FdSink(fd, "wav"), noise(1000)), "finished")
    data = path.read_bytes()
    assert data.startswith(b"beforeRIFF\xff\xff\xff\xff")
    assert data[6 + 44 :] == noise(1000).tobytes()


def test_an_utterance_without_samples_is_an_empty_wav(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with Player() as player:
        generation = player.begin(FdSink(os.open(path, os.O_WRONLY | os.O_CREAT), "wav"))
        player.pipe.push_end(generation)
        assert player.wait(generation, "finished")[3] == 0
    with wave.open(str(path)) as w:
        assert w.getnframes() == 0


def test_a_full_disk_is_an_error() -> None:
    fd = os.open("/dev/full", os.O_WRONLY)
    with Player() as player:
        assert player.wait(player.say(FdSink(fd), noise(5000)), "device")[3] == -errno.ENOSPC


@pytest.mark.parametrize("mode", ["closed", "read-only"])
def test_a_descriptor_that_cannot_be_written(mode: str) -> None:
    with Player() as player:
        fd = os.open("/dev/null", os.O_RDONLY)
        if mode == "closed":
            os.close(fd)
        assert player.wait(player.say(FdSink(fd), noise(5000)), "device")[3] == -errno.EBADF


def test_bad_values_are_named() -> None:
    with pytest.raises(ValueError, match="format: 'mp3' given, 's16le' or 'wav' allowed"):
        FdSink(1, "mp3")
    with pytest.raises(ValueError, match="fd: -1 given"):
        FdSink(-1)
