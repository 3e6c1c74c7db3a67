"""Stages leave a cluster that is throttled, where the machine has a better one."""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable

import pytest
from engine_rig import Rig, drive, with_config
from hw_boards import BOARDS, board, write
from hypothesis import given
from hypothesis import strategies as st

from cython_kernels.fake_sink import FakeSink
from cython_kernels.pipe import TalkerHandle
from edgettsd.config import Config
from edgettsd.daemon import _keep_cool
from edgettsd.engine._api import Reason
from edgettsd.engine.engine import Engine
from edgettsd.engine.parts import FakeParts
from edgettsd.hw import Cpu, Profile, adapt
from edgettsd.hw.rearrange import Speeds, Stage, Stages, rearrange
from edgettsd.hw.thermal import Sensors
from edgettsd.hw.threads import PROCESS_CPUS, move_threads, name_thread


def planned(profile: Profile, config: Config | None = None) -> Stages:
    """The stages as the plan has them."""
    config = config or Config()
    plan = adapt(profile, config)
    return Stages(
        Stage(plan.cpus_generator, plan.threads_generator, bool(config.engine.cpus_generator)),
        Stage(plan.cpus_decoder, plan.threads_decoder, bool(config.engine.cpus_decoder)),
    )


def slow(share: float, *cpus: int) -> Speeds:
    return Speeds(1.0, dict.fromkeys(cpus, share))


@pytest.mark.parametrize("name", BOARDS)
def test_nothing_moves_on_a_cool_board(name, tmp_path):
    profile = board(name, tmp_path)
    stages = planned(profile)
    best = rearrange(profile, stages, Speeds())
    assert (best.generator, best.decoder, best.speed) == (stages.generator.cpus, stages.decoder.cpus, 1.0)
    # All equally slow: no place is better.
    best = rearrange(profile, stages, Speeds(0.5))
    assert (best.generator, best.decoder, best.speed) == (stages.generator.cpus, stages.decoder.cpus, 0.5)


def test_a_board_with_a_third_cluster(tmp_path):
    """AGX Orin: three clusters of four of the same kind; two compute."""
    profile = board("agx-orin", tmp_path)
    stages = planned(profile)
    assert stages.generator.cpus == (4, 5, 6, 7)
    assert stages.decoder.cpus == (8, 9, 10, 11)
    best = rearrange(profile, stages, slow(0.6, 4, 5, 6, 7))
    assert set(best.generator) | set(best.decoder) == {0, 1, 2, 3, 8, 9, 10, 11}
    assert best.speed == 1.0


def test_a_board_whose_other_cluster_is_slower(tmp_path):
    """RK3588: a big cluster at three quarters is still better than four little cores, at a quarter not."""
    profile = board("rk3588", tmp_path)
    stages = planned(profile)
    assert (stages.generator.cpus, stages.decoder.cpus) == ((4, 5), (6, 7))
    best = rearrange(profile, stages, slow(0.75, 4, 5))
    assert (best.generator, best.decoder, best.speed) == ((4, 5), (6, 7), 0.75)
    best = rearrange(profile, stages, slow(0.25, 4, 5))
    assert best.decoder == (6, 7)
    assert set(best.generator) <= {0, 1, 2, 3}
    assert 0.25 < best.speed < 0.75


def test_what_is_configured_stays(tmp_path):
    profile = board("agx-orin", tmp_path)
    both = planned(profile, with_config(cpus_generator=(4, 5, 6, 7), cpus_decoder=(8, 9)))
    best = rearrange(profile, both, slow(0.5, 4, 5, 6, 7))
    assert (best.generator, best.decoder, best.speed) == ((4, 5, 6, 7), (8, 9), 0.5)
    one = planned(profile, with_config(cpus_generator=(4, 5, 6, 7)))
    hot = slow(0.5, *one.decoder.cpus)
    best = rearrange(profile, one, hot)
    assert best.generator == (4, 5, 6, 7)
    assert not set(best.decoder) & {4, 5, 6, 7, *one.decoder.cpus}


def test_stages_that_share_their_cpus_move_together():
    cpus = tuple(Cpu(n, n, n // 2 * 2) for n in range(4))
    profile = Profile("arm64", "aarch64", "", ("neon",), cpus, (0, 1, 2, 3))
    stages = Stages(Stage((0, 1), 2), Stage((0, 1), 2))
    best = rearrange(profile, stages, slow(0.5, 0, 1))
    assert (best.generator, best.decoder, best.speed) == ((2, 3), (2, 3), 1.0)


def siblings(cores: int) -> tuple[Cpu, ...]:
    """A machine with SMT: CPUs n and n + `cores` are the two halves of core n."""
    return tuple(Cpu(n, n % cores, n // 2 % 2 * 2) for n in range(2 * cores))


def test_the_other_half_of_a_configured_core_is_no_free_core():
    """The generator has two cores by configuration; their SMT siblings are not where a hot decoder can go."""
    profile = Profile("x86", "x86_64", "", ("avx2",), siblings(4), tuple(range(8)))
    for stages in (
        Stages(Stage((0, 1), 2, fixed=True), Stage((2, 3), 2)),
        Stages(Stage((2, 3), 2), Stage((4, 5), 2, fixed=True)),
    ):
        best = rearrange(profile, stages, slow(0.5, 2, 3, 6, 7))
        assert (best.generator, best.decoder) == (stages.generator.cpus, stages.decoder.cpus)
        assert best.speed == 0.5


@given(
    cores=st.integers(1, 6),
    generator=st.sets(st.integers(0, 11), max_size=3),
    decoder=st.sets(st.integers(0, 11), max_size=3),
    shares=st.dictionaries(st.integers(0, 11), st.floats(0.05, 1.0)),
)
def test_stages_that_were_on_cores_apart_stay_so_with_smt(cores, generator, decoder, shares):
    ids = tuple(range(2 * cores))
    profile = Profile("x86", "x86_64", "", ("avx2",), siblings(cores), ids)
    config = with_config(
        cpus_generator=tuple(sorted(set(ids) & generator)), cpus_decoder=tuple(sorted(set(ids) & decoder))
    )
    stages = planned(profile, config)
    best = rearrange(profile, stages, Speeds(1.0, shares))

    def on(cpus: tuple[int, ...]) -> set[int]:
        return {profile.cpu(n).core for n in cpus}

    if not on(stages.generator.cpus) & on(stages.decoder.cpus):
        assert not on(best.generator) & on(best.decoder)


@given(
    capacities=st.lists(st.integers(100, 1024), min_size=1, max_size=12),
    shares=st.dictionaries(st.integers(0, 11), st.floats(0.05, 1.0)),
    everything=st.floats(0.05, 1.0),
    isolated=st.sets(st.integers(0, 11), max_size=2),
)
def test_any_machine(capacities, shares, everything, isolated):
    ids = tuple(range(len(capacities)))
    isolated = tuple(sorted(set(ids) & isolated))
    cpus = tuple(Cpu(n, n, n // 4 * 4, capacity) for n, capacity in enumerate(capacities))
    profile = Profile("arm64", "aarch64", "", ("neon",), cpus, ids, isolated=isolated)
    stages = planned(profile)
    speeds = Speeds(everything, shares)
    best = rearrange(profile, stages, speeds)
    assert 0 < best.speed <= 1
    assert set(best.generator + best.decoder) <= set(ids)
    moved = (best.generator, best.decoder) != (stages.generator.cpus, stages.decoder.cpus)
    if moved:
        assert not set(best.generator + best.decoder) & set(isolated)
    for stage, there in ((stages.generator, best.generator), (stages.decoder, best.decoder)):
        assert len(there) >= min(stage.threads, len(stage.cpus))
    # Cores that were apart stay apart.
    if not set(stages.generator.cpus) & set(stages.decoder.cpus):
        assert not set(best.generator) & set(best.decoder)


class Crew(FakeParts):
    """A talker with a worker thread, as the real kernels have them."""

    def __init__(self, **settings: int) -> None:
        super().__init__(**settings)
        self.end = threading.Event()
        self.worker = 0

    def talker(self) -> TalkerHandle:
        ready = threading.Event()

        def work() -> None:
            self.worker = threading.get_native_id()
            ready.set()
            self.end.wait()

        threading.Thread(target=work, daemon=True).start()
        assert ready.wait(10)
        return super().talker()


def affinity(name: str) -> list[tuple[int, ...]]:
    """The CPUs of each thread of this name."""
    found = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/comm") as comm:
            if comm.read().strip() == name:
                found.append(tuple(sorted(os.sched_getaffinity(int(task)))))
    return found


def two_clusters(first: int, second: int) -> Profile:
    """This machine's first and last CPU as two clusters of one core each."""
    a, b = min(PROCESS_CPUS), max(PROCESS_CPUS)
    cpus = (Cpu(a, a, a, first), Cpu(b, b, b, second))
    return Profile("arm64-biglittle", "aarch64", "", ("neon",), cpus, (a, b))


def capped(root, cpu: int, share: float) -> None:
    write(
        root,
        {
            f"sys/devices/system/cpu/cpufreq/policy{cpu}/related_cpus": f"{cpu} \n",
            f"sys/devices/system/cpu/cpufreq/policy{cpu}/scaling_max_freq": f"{round(2_000_000 * share)}\n",
        },
    )


def test_real_threads_move_and_come_back_while_something_is_spoken(tmp_path, caplog):
    """A made-up /sys, real threads: a fast core that is slowed down swaps its stage with the other one."""
    caplog.set_level(logging.INFO)
    a, b = min(PROCESS_CPUS), max(PROCESS_CPUS)
    assert a != b, "this test needs two CPUs"
    profile, config = two_clusters(1024, 600), Config()
    parts = Crew(eos_after=60, step_us=5000)

    async def test(rig: Rig) -> None:
        engine = rig.engine
        keep_cool: Callable[[Speeds], None] = _keep_cool(engine, profile)
        sensors = Sensors((), tmp_path)
        capped(tmp_path, a, 1.0)
        keep_cool(sensors.read().speeds)
        assert set(affinity("tts-generator")) == {(a,)}
        assert set(affinity("tts-decoder")) == {(b,)}
        speech = rig.say()
        await rig.until(lambda: speech in rig.started)
        capped(tmp_path, a, 0.2)
        keep_cool(sensors.read().speeds)
        assert affinity("tts-generator") == [(b,)] * 2
        assert set(affinity("tts-decoder")) == {(a,)}
        assert tuple(os.sched_getaffinity(parts.worker)) == (b,)
        assert engine._pipeline is not None
        assert round(engine._pipeline._speed, 2) == 0.34
        capped(tmp_path, a, 1.0)
        keep_cool(sensors.read().speeds)
        assert affinity("tts-generator") == [(a,)] * 2
        assert engine._pipeline._speed == 1.0
        assert await rig.ended(speech) is Reason.COMPLETED

    plan = adapt(profile, config)
    original = Engine.__init__

    def with_plan(self, *args, **named) -> None:
        original(self, *args, **named, plan=plan)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "__init__", with_plan)
        try:
            drive(test, parts=parts, sink=FakeSink(speed=20, buffer=1 << 16, capture=1 << 22), config=config)
        finally:
            parts.end.set()
    told = [r.getMessage() for r in caplog.records if "moved from CPUs" in r.getMessage()]
    assert told == [
        f"generator moved from CPUs {a} to {b} (2 threads)",
        f"decoder moved from CPUs {b} to {a} (1 threads)",
        f"generator moved from CPUs {b} to {a} (2 threads)",
        f"decoder moved from CPUs {a} to {b} (1 threads)",
    ]


@pytest.mark.parametrize("absent", ["generator", "decoder"])
def test_the_speed_is_that_of_the_cpus_where_the_threads_really_are(absent, caplog):
    """A move that fails halfway is taken back, and playing starts as late as the slow CPUs need."""
    a, b = min(PROCESS_CPUS), max(PROCESS_CPUS)
    assert a != b, "this test needs two CPUs"
    nowhere = 4000
    # As fast as the first CPU: the generator goes there alone. Slower than the second: left for the decoder.
    other = Cpu(nowhere, nowhere, nowhere, 1024 if absent == "generator" else 500)
    plan = adapt(two_clusters(1024, 600), Config())
    cpus = (Cpu(a, a, a, 1024), Cpu(b, b, b, 600), other)
    wider = Profile("arm64-biglittle", "aarch64", "", ("neon",), cpus, (a, b, nowhere))

    async def test(rig: Rig) -> None:
        hot = slow(0.25, a)
        assert rig.engine.stages is not None
        best = rearrange(wider, rig.engine.stages, hot)
        assert {"generator": best.generator, "decoder": best.decoder}[absent] == (nowhere,)
        assert best.speed > 0.4
        _keep_cool(rig.engine, wider)(hot)
        assert set(affinity("tts-generator")) == {(a,)}
        assert set(affinity("tts-decoder")) == {(b,)}
        assert rig.engine._pipeline is not None
        assert rig.engine._pipeline._speed == 0.25
        assert f"{absent} stays on CPUs" in caplog.text
        assert await rig.ended(rig.say()) is Reason.COMPLETED

    original = Engine.__init__

    def with_plan(self, *args, **named) -> None:
        original(self, *args, **named, plan=plan)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "__init__", with_plan)
        drive(test)


def test_a_stage_whose_threads_cannot_all_move_stays_whole(monkeypatch):
    """The second of two threads is refused: the first is put back where it was."""
    a, b = min(PROCESS_CPUS), max(PROCESS_CPUS)
    assert a != b, "this test needs two CPUs"
    end, set_affinity, moves = threading.Event(), os.sched_setaffinity, []

    def work(ready: threading.Event) -> None:
        name_thread("tts-crew")
        set_affinity(0, (a,))
        ready.set()
        end.wait()

    def refuse_the_second(thread, cpus):
        moves.append((thread, tuple(cpus)))
        if len(moves) == 2:
            raise OSError(errno.EINVAL, "Invalid argument")
        set_affinity(thread, cpus)

    crew = []
    for _ in range(2):
        ready = threading.Event()
        crew.append(threading.Thread(target=work, args=(ready,), daemon=True))
        crew[-1].start()
        assert ready.wait(10)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "sched_setaffinity", refuse_the_second)
            with pytest.raises(ValueError, match="Invalid argument"):
                move_threads("tts-crew", (b,))
        assert [cpus for _, cpus in moves] == [(b,), (b,), (a,)]
        assert moves[2][0] == moves[0][0] != moves[1][0]
        assert affinity("tts-crew") == [(a,), (a,)]
        assert move_threads("tts-crew", (b,)) == 2
        assert affinity("tts-crew") == [(b,), (b,)]
    finally:
        end.set()
        for thread in crew:
            thread.join()


def test_cpus_that_are_not_there_leave_the_threads_where_they_are(caplog):
    async def test(rig: Rig) -> None:
        assert rig.engine._pipeline is not None
        rig.engine._pipeline._placed["generator"] = (0,)
        before = affinity("tts-generator")
        rig.engine.move((4000,), rig.engine._pipeline._placed["decoder"])
        assert affinity("tts-generator") == before
        assert "generator stays on CPUs 0" in caplog.text
        assert await rig.ended(rig.say()) is Reason.COMPLETED

    drive(test)
