"""The silence between two sentences as it is heard: as asked for, the model's own silence included."""

from __future__ import annotations

import ctypes
import subprocess

import kernel_sources
import numpy as np
import pytest
from engine_rig import SPF, Rig, drive, with_config

from cython_kernels.fake_sink import FakeSink
from edgettsd.engine._api import Reason
from edgettsd.engine.parts import FakeParts

RATE = 24_000


def silences(before: int, after: int, pause_ms: int, chunks: tuple[int, ...]) -> list[int]:
    """Samples of near-silence between the loud parts of three sentences with quiet frames around them."""
    levels = [13] * before + [0] * 8 + [13] * after
    sink = FakeSink(speed=50, buffer=1 << 16, capture=1 << 20)

    async def test(rig: Rig) -> None:
        utterance = rig.say("One here. Two here. Three here.")
        assert await rig.ended(utterance) is Reason.COMPLETED

    config = with_config(sentence_pause_ms=pause_ms, chunks=chunks)
    drive(test, parts=FakeParts(eos_after=len(levels), levels=levels), sink=sink, config=config)
    loud = np.abs(np.frombuffer(sink.heard(), np.int16).astype(np.int32)) > 8
    # A loud sample may be near zero for a moment; silence lasts.
    edges = np.flatnonzero(loud)
    gaps = np.diff(edges)
    return [int(gap) - 1 for gap in gaps if gap > 200]


@pytest.mark.parametrize("chunks", [(1,), (8,), (1, 4, 8)])
@pytest.mark.parametrize(("before", "after"), [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)])
def test_the_models_own_silence_is_part_of_the_pause(
    before: int, after: int, chunks: tuple[int, ...]
) -> None:
    for found in silences(before, after, 240, chunks):
        # Loud samples that are near zero belong to what is measured here.
        assert abs(found - 240 * RATE // 1000) < 20 * RATE // 1000, found / 24


@pytest.mark.parametrize(("before", "after"), [(0, 4), (1, 4), (2, 3)])
def test_the_models_own_silence_is_never_cut(before: int, after: int) -> None:
    own = (before + after) * SPF
    for found in silences(before, after, 240, (1, 4, 8)):
        assert abs(found - own) < 20 * RATE // 1000, found / 24


def test_no_pause_where_none_is_asked_for() -> None:
    assert silences(0, 0, 0, (1, 4, 8)) == []


@pytest.fixture(scope="module")
def runaway(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """et_runaway.c as a library of its own."""
    library = tmp_path_factory.mktemp("c") / "runaway.so"
    (source,) = kernel_sources.files(["et_runaway"])
    options = ["-O1", "-shared", "-fPIC", *kernel_sources.INCLUDES]
    subprocess.run(["gcc", *options, "-o", library, source, "-lm"], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.et_quiet_init.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_double]
    loaded.et_quiet_frame.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    loaded.et_quiet_end.argtypes = [ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_size_t] * 2, ctypes.c_int]
    loaded.et_quiet_end.restype = ctypes.c_size_t
    return loaded


@pytest.mark.parametrize("at_begin", [False, True])
@pytest.mark.parametrize("quiet", [0, 50, 119, 120, 500, 1000, 1800])
def test_silence_at_the_ends_of_a_frame_is_measured_in_blocks_of_5_ms(
    runaway: ctypes.CDLL, quiet: int, at_begin: bool
) -> None:
    state = ctypes.create_string_buffer(64)
    runaway.et_quiet_init(state, 38, 40.0)
    rng = np.random.default_rng(1)
    frame = rng.uniform(-0.5, 0.5, SPF).astype(np.float32)
    silent = slice(0, quiet) if at_begin else slice(SPF - quiet, SPF)
    measured = frame.copy()
    measured[silent] *= 1e-4
    assert runaway.et_quiet_end(state, measured.ctypes.data, SPF, 120, at_begin) == 0, "nothing loud came yet"
    runaway.et_quiet_frame(state, frame.ctypes.data, SPF)
    found = runaway.et_quiet_end(state, measured.ctypes.data, SPF, 120, at_begin)
    assert found == quiet // 120 * 120
