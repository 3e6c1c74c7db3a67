"""A render's spool and its writer: pipes, sockets, files; closed, slow and stalled readers."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import wave
from pathlib import Path

import pytest
from audio_rigs import Player, noise
from spool_rig import SLOT, Reading, is_open, read_all, until

from cython_kernels.delivery import MIN_MEMORY, Spool, Store, descriptor_kind
from edgettsd.config import Config, ConfigError

pytest_plugins = ("audio_rigs", "spool_rig")


# --- every sample -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("pause", [0.0, 0.003])
def test_a_pipe_gets_every_sample_and_its_end(store: Store, player: Player, pause: float) -> None:
    r, w = os.pipe()
    reading = Reading(r, 3000, pause)
    pcm = noise(200_001)
    spool = Spool(store, w)
    generation = player.say(spool, pcm, (1920, 7680))
    assert player.wait(generation, "finished")[2:4] == ("completed", len(pcm))
    assert reading.all() == pcm.tobytes()
    until(lambda: spool.over)
    assert not is_open(w)
    assert (spool.error, spool.delivered, spool.frames) == (0, 2 * len(pcm), len(pcm))
    assert spool.stuck_since == spool.full_since == 0


def test_a_socket_gets_everything(store: Store, player: Player) -> None:
    ours, theirs = socket.socketpair()
    reading = Reading(ours.detach(), 5000, 0.001)
    pcm = noise(100_001)
    player.say(Spool(store, theirs.detach(), "wav"), pcm)
    assert reading.all()[44:] == pcm.tobytes()


def test_playout_is_done_long_before_a_reader_who_has_not_begun(store: Store, player: Player) -> None:
    """What does not fit into pipe and memory lies in the file, and comes out in order."""
    r, w = os.pipe()
    pcm = noise(400_000)
    spool = Spool(store, w)
    began = time.monotonic()
    player.wait(player.say(spool, pcm), "finished", timeout=5)
    assert time.monotonic() - began < 3
    assert len(pcm) * 2 - 65_536 - MIN_MEMORY - 2 * SLOT < store.used <= len(pcm) * 2
    assert not spool.over and spool.stuck_since
    assert Reading(r, 4096, 0.0001).all() == pcm.tobytes()
    until(lambda: spool.over)
    assert (store.used, store.failed) == (0, 0)


def test_spools_of_many_share_the_file_and_each_gets_its_own(store: Store, player: Player) -> None:
    pipes = [os.pipe() for _ in range(12)]
    spools = [Spool(store, w) for _, w in pipes]
    for number, spool in enumerate(spools):
        player.wait(player.say(spool, noise(60_000 + number, number)), "finished")
    readers = [Reading(r, 1000 * (1 + number), 0.0005) for number, (r, _) in enumerate(pipes)]
    for number, reading in enumerate(readers):
        assert reading.all() == noise(60_000 + number, number).tobytes()
    until(lambda: store.used == 0)


def test_without_a_file_memory_is_the_bound_and_playout_waits(player: Player) -> None:
    r, w = os.pipe()
    fcntl.fcntl(w, fcntl.F_SETPIPE_SZ, 4096)
    spool = Spool(Store(None, 1 << 24), w)
    generation = player.begin(spool)
    pcm = noise(90_000)
    thread = threading.Thread(target=player.push, args=(generation, pcm))
    thread.start()
    until(lambda: spool.full_since)
    time.sleep(0.1)
    assert spool.frames * 2 <= MIN_MEMORY + SLOT + 4096
    assert spool.room == 0
    reading = Reading(r)
    thread.join(10)
    player.pipe.push_end(generation)
    player.wait(generation, "finished")
    assert reading.all() == pcm.tobytes()


def test_the_bell_tells_of_a_full_spool_and_of_room_again(player: Player) -> None:
    r, w = os.pipe()
    store = Store(None, 0)
    spool = Spool(store, w)
    generation = player.begin(spool)
    player.push(generation, noise(120_000))
    until(lambda: spool.full_since)
    assert os.eventfd_read(store.bell) >= 1
    # As if the render were taken off the pipeline for it.
    player.pipe.next_generation()
    player.wait(generation, "dropped")
    assert not spool.over
    read = 0
    while spool.full_since:
        read += len(os.read(r, 8192))
        time.sleep(0.01)
    assert spool.room >= MIN_MEMORY // 4
    assert os.eventfd_read(store.bell) >= 1
    spool.cancel()
    os.close(r)


@pytest.mark.parametrize("back", [0, 1, 700, 3000])
def test_a_render_that_is_set_back_goes_on_without_a_seam(store: Store, player: Player, back: int) -> None:
    """A new generation begins `back` frames before what the spool has; playout hands it over once more."""
    r, w = os.pipe()
    reading, pcm, spool = Reading(r), noise(50_000), Spool(store, w)
    first = player.begin(spool)
    player.push(first, pcm[:20_000])
    until(lambda: spool.frames == 20_000)
    player.pipe.next_generation()
    player.wait(first, "dropped")
    player.wait(player.say(None, noise(0)), "device")
    spool.skip(back)
    player.wait(player.say(spool, pcm[20_000 - back :]), "finished")
    assert reading.all() == pcm.tobytes()
    assert spool.frames == len(pcm)


# --- WAV --------------------------------------------------------------------------------------------------


def wav_file(path: Path) -> tuple[tuple[int, int, int], bytes]:
    with wave.open(str(path)) as file:
        return (file.getnchannels(), file.getsampwidth(), file.getframerate()), file.readframes(1 << 24)


@pytest.mark.parametrize("n", [0, 1, 30_001])
def test_a_wav_file_has_its_sizes(store: Store, player: Player, tmp_path: Path, n: int) -> None:
    path = tmp_path / "a.wav"
    spool = Spool(store, os.open(path, os.O_WRONLY | os.O_CREAT), "wav")
    player.say(spool, noise(n))
    until(lambda: spool.over)
    assert wav_file(path) == ((1, 2, 24_000), noise(n).tobytes())
    assert path.stat().st_size == 44 + 2 * n


def test_an_aborted_wav_file_can_be_read(store: Store, player: Player, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    spool = Spool(store, os.open(path, os.O_WRONLY | os.O_CREAT), "wav")
    player.push(player.begin(spool), noise(30_000))
    until(lambda: spool.delivered)
    spool.cancel()
    until(lambda: spool.over)
    assert spool.error == -errno.ECANCELED
    assert wav_file(path)[1] == noise(30_000).tobytes()[: spool.delivered]


def test_a_wav_stream_says_to_the_end(store: Store, player: Player) -> None:
    r, w = os.pipe()
    player.say(Spool(store, w, "wav", 22_050), noise(5000))
    data = read_all(r)
    assert data[:4] + data[8:16] == b"RIFFWAVEfmt "
    assert struct.unpack("<I", data[4:8]) == struct.unpack("<I", data[40:44]) == (0xFFFFFFFF,)
    assert struct.unpack("<IHHIIHH", data[16:36]) == (16, 1, 1, 22_050, 44_100, 2, 16)
    assert data[44:] == noise(5000).tobytes()


@pytest.mark.parametrize("flags", [os.O_APPEND, 0])
def test_a_file_is_written_where_the_client_left_off(
    store: Store, player: Player, tmp_path: Path, flags: int
) -> None:
    """The offset is the client's, too; what is appended is not patched."""
    path = tmp_path / "a.wav"
    path.write_bytes(b"before")
    fd = os.open(path, os.O_WRONLY | flags)
    ours = os.dup(fd)
    os.lseek(fd, 6, os.SEEK_SET)
    spool = Spool(store, fd, "wav")
    player.say(spool, noise(1000))
    until(lambda: spool.over)
    assert os.lseek(ours, 0, os.SEEK_CUR) == 6 + 44 + 2000
    os.close(ours)
    data = path.read_bytes()
    assert data.startswith(b"beforeRIFF" + (b"\xff" * 4 if flags else struct.pack("<I", 2036)))
    assert data[6 + 44 :] == noise(1000).tobytes()


# --- readers that leave -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pipe", "socket"])
@pytest.mark.parametrize("n", [1920, 200_000])
def test_a_reader_that_leaves_is_noticed_at_once(store: Store, player: Player, kind: str, n: int) -> None:
    """While there is something to write, and while there is not. The default of SIGPIPE ends a process."""
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        if kind == "pipe":
            r, w = os.pipe()
        else:
            r, w = (end.detach() for end in socket.socketpair())
        spool = Spool(store, w)
        generation = player.begin(spool)
        player.push(generation, noise(n))
        time.sleep(0.05)
        os.close(r)
        began = time.monotonic()
        until(lambda: spool.over)
        assert time.monotonic() - began < 0.5
        assert spool.error == -errno.EPIPE and not is_open(w)
        # What still comes is thrown away without anyone waiting.
        assert player.push(generation, noise(300_000)) == "ok"
        player.pipe.push_end(generation)
        player.wait(generation, "finished")
        assert store.used == 0
    finally:
        signal.signal(signal.SIGPIPE, before)


def test_cancel_of_a_writer_whose_reader_does_not_read(store: Store, player: Player) -> None:
    r, w = os.pipe()
    spool = Spool(store, w)
    player.say(spool, noise(200_000))
    time.sleep(0.1)
    began = time.monotonic()
    spool.cancel()
    until(lambda: spool.over)
    assert time.monotonic() - began < 0.05
    got = read_all(r)
    # What the pipe took is the beginning of the speech, and all of it is accounted for.
    assert noise(200_000).tobytes().startswith(got) and len(got) == spool.delivered
    until(lambda: store.used == 0)


def test_a_forgotten_spool_ends_its_writer(store: Store) -> None:
    r, w = os.pipe()
    spool = Spool(store, w)
    del spool
    assert read_all(r) == b""


def test_the_shared_description_is_left_as_it_is(store: Store, player: Player) -> None:
    r, w = os.pipe()
    ours = os.dup(w)
    flags = fcntl.fcntl(ours, fcntl.F_GETFL)
    spool = Spool(store, w)
    reading = Reading(r)
    player.say(spool, noise(50_000))
    until(lambda: spool.over)
    assert fcntl.fcntl(ours, fcntl.F_GETFL) == flags
    os.close(ours)
    reading.all()


# --- values -----------------------------------------------------------------------------------------------


def test_bad_values_leave_the_descriptor_to_the_caller(store: Store) -> None:
    r, w = os.pipe()
    with pytest.raises(ValueError, match="format: 'mp3' given"):
        Spool(store, w, "mp3")
    with pytest.raises(ValueError, match="out of range"):
        Spool(store, w, memory=MIN_MEMORY - 1)
    with pytest.raises(ValueError, match="out of range"):
        Spool(store, -1)
    assert is_open(w)
    os.close(r)
    os.close(w)


def test_the_least_memory_of_the_configuration_is_that_of_the_kernel() -> None:
    least = MIN_MEMORY >> 10
    given = Config().updated({"delivery": {"spool_memory_kib": least}}, "test")
    assert given.delivery.spool_memory_kib == least
    with pytest.raises(ConfigError, match=f"from {least} to"):
        Config().updated({"delivery": {"spool_memory_kib": least - 1}}, "test")


def test_kinds_of_descriptors(tmp_path: Path) -> None:
    with open(tmp_path / "f", "w") as file:
        assert descriptor_kind(file.fileno()) == "file"
    a, b = socket.socketpair()
    with a, b:
        assert descriptor_kind(a.fileno()) == "socket"
    r, w = os.pipe()
    assert descriptor_kind(w) == "pipe"
    with pytest.raises(ValueError, match="not open for writing"):
        descriptor_kind(r)
    for fd in (r, w):
        os.close(fd)
    with pytest.raises(ValueError, match="not open"):
        descriptor_kind(w)


# --- memory -----------------------------------------------------------------------------------------------

# Prints the allocations of all threads that are named tts-..., for 1 s and for 20 s of speech.
SCRIPT = """
import ctypes, os, sys, threading, time
sys.path.insert(0, sys.argv[1])
import numpy as np
from audio_rigs import Player
from cython_kernels.delivery import Spool, Store

allocations = ctypes.CDLL(None).allocations
allocations.restype = ctypes.c_ulong
pcm = np.full(24_000 * 20, 9000, np.int16)
with Player() as player:
    store = Store(sys.argv[2], 1 << 24)
    for n in (24_000, 24_000, len(pcm)):
        r, w = os.pipe()
        spool = Spool(store, w)
        before = allocations()
        player.wait(player.say(spool, pcm[:n]), "finished")
        spilled = store.used
        while os.read(r, 1 << 16):
            pass
        while not spool.over:
            time.sleep(0.01)
        print(spilled, allocations() - before)
"""


def test_samples_cost_no_allocation(tmp_path: Path) -> None:
    library = tmp_path / "count_alloc.so"
    source = Path(__file__).parents[1] / "rigs" / "count_alloc.c"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT, str(Path(__file__).parents[1]), str(tmp_path)],
        env=os.environ | {"LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    _, (_, short), (spilled, long) = [map(int, line.split()) for line in done.stdout.splitlines()]
    assert spilled > 10 * SLOT, "the file is not used"
    assert long <= short
