"""A render's spool and full disks: the client's, and that of the overflow file."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import threading
import time
from pathlib import Path

import pytest
from audio_rigs import Player, noise
from spool_rig import SLOT, Reading, until

from cython_kernels.delivery import LOST, MIN_MEMORY, Spool, Store
from edgettsd.config import DeliveryConfig
from edgettsd.engine import delivery
from edgettsd.engine._api import Reason
from edgettsd.engine.delivery import Deliveries, Delivery, explain

pytest_plugins = ("audio_rigs", "spool_rig")


def test_the_clients_full_disk_is_an_error_of_the_delivery(
    store: Store, player: Player, tmp_path: Path
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        spool = Spool(store, os.open(tmp_path / "a", os.O_WRONLY | os.O_CREAT))
        player.say(spool, noise(20_000))
        until(lambda: spool.over)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert spool.error == -errno.EFBIG
    assert explain(errno.ENOSPC) == (Reason.DEVICE, os.strerror(errno.ENOSPC))
    assert (tmp_path / "a").read_bytes() == noise(20_000).tobytes()[:10_000]


@pytest.mark.parametrize("fault", ["no folder", "full"])
def test_where_the_overflow_file_cannot_grow_the_reader_is_the_pace(
    player: Player, tmp_path: Path, fault: str
) -> None:
    """Nothing is lost; with room on the disk again the file is used again."""
    r, w = os.pipe()
    pcm = noise(300_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    folder = tmp_path / "there"
    if fault == "full":
        folder.mkdir()
        # In the middle of the third slot.
        resource.setrlimit(resource.RLIMIT_FSIZE, (80_000, hard))
    try:
        store = Store(folder, 1 << 24)
        spool = Spool(store, w)
        generation = player.begin(spool)
        thread = threading.Thread(target=player.push, args=(generation, pcm))
        thread.start()
        until(lambda: spool.full_since and store.failed)
        assert store.failed == (errno.EFBIG if fault == "full" else errno.ENOENT)
        assert store.used <= 80_000
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    folder.mkdir(exist_ok=True)
    thread.join(10)
    assert not thread.is_alive(), "the file is not tried again"
    player.pipe.push_end(generation)
    player.wait(generation, "finished")
    assert Reading(r).all() == pcm.tobytes()


def test_all_spools_together_keep_within_the_files_size(player: Player, tmp_path: Path) -> None:
    store = Store(tmp_path, 10 * SLOT + 1000)
    pipes = [os.pipe() for _ in range(3)]
    spools = [Spool(store, w) for _, w in pipes]
    for number, spool in enumerate(spools):
        arguments = player.begin(spool), noise(300_000, number)
        threading.Thread(target=player.push, args=arguments, daemon=True).start()
        until(lambda s=spool: store.used == 10 * SLOT and s.room == 0)
    # Those that come later have their memory all the same.
    until(lambda: all(spool.frames * 2 > MIN_MEMORY for spool in spools))
    time.sleep(0.1)
    assert store.used == 10 * SLOT
    for spool in spools:
        spool.cancel()
    until(lambda: all(spool.over for spool in spools))
    until(lambda: store.used == 0)
    for r, _ in pipes:
        os.close(r)


def test_an_overflow_file_that_fails_is_logged_once(
    player: Player, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(delivery, "cache_folder", lambda: tmp_path / "gone")
    ends: list[Delivery] = []

    async def main() -> None:
        deliveries = Deliveries(DeliveryConfig(spool_memory_kib=64))
        deliveries.ended = ends.append
        deliveries.start()
        r, w = os.pipe()
        made = deliveries.begin(None, w, "s16le", 24_000)
        player.say(made.spool, noise(120_000))
        async with asyncio.timeout(10):
            while "gone" not in caplog.text:
                await asyncio.sleep(0.01)
            reading = Reading(r)
            while not ends:
                await asyncio.sleep(0.01)
        assert reading.all() == noise(120_000).tobytes() and ends == [made] and made.failure is None
        deliveries.close()

    asyncio.run(main())
    assert caplog.text.count(os.strerror(errno.ENOENT)) == 1


def test_what_cannot_be_read_back_is_told_as_an_error() -> None:
    assert explain(LOST) == (Reason.ERROR, "what was kept for the reader cannot be read any more")
    assert explain(errno.EPIPE) == (Reason.ABORTED, "the reader closed the stream")
    assert explain(errno.ECANCELED) is None
