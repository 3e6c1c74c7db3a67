"""The thermal watcher over a made-up /sys."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest
from engine_rig import Rig, drive
from hw_boards import board, write

from edgettsd import messages
from edgettsd.engine._api import Reason
from edgettsd.engine.parts import FakeParts
from edgettsd.hw import Zone, thermal
from edgettsd.hw.rearrange import Speeds
from edgettsd.hw.thermal import CALM_READINGS, Governor, Reading, Sensors

POLICY = "sys/devices/system/cpu/cpufreq/policy4/scaling_max_freq"
ZONE = "sys/class/thermal/thermal_zone1/temp"


@pytest.fixture
def rk3588(tmp_path):
    """Sensors of a cool RK3588, read once, and its root folder."""
    sensors = Sensors(board("rk3588", tmp_path).zones, tmp_path)
    assert sensors.read() == Reading()
    return sensors, tmp_path


def test_a_capped_clock(rk3588):
    sensors, root = rk3588
    write(root, {POLICY: "1800000\n"})
    assert sensors.read() == Reading.of(0.75, "policy4 is capped at 1800 of 2400 MHz", (4, 5))
    write(root, {POLICY: "2400000\n"})
    assert sensors.read().speed == 1


def test_a_cap_from_the_start_is_the_administrators(tmp_path):
    sensors = Sensors((), write(tmp_path, {POLICY: "1200000\n"}))
    assert sensors.read().speed == 1
    write(tmp_path, {POLICY: "600000\n"})
    assert sensors.read().speed == 0.5


@pytest.mark.parametrize("temperature, speed", [(81_900, 1.0), (82_000, 0.8), (99_000, 0.8), (-40_000, 1.0)])
def test_near_the_limit(rk3588, temperature, speed):
    sensors, root = rk3588
    write(root, {ZONE: f"{temperature}\n"})
    reading = sensors.read()
    assert reading.speed == speed
    assert ("slows down at 85 C" in reading.reason) is (speed < 1)


@pytest.mark.parametrize(
    "devices, cpus",
    [
        (["cpufreq-cpu4"], (4, 5)),
        (["cpufreq-cpu4", "cpufreq-cpu6"], (4, 5, 6, 7)),
        (["cpufreq-cpu0", "devfreq-gpu"], ()),
        (["pwm-fan"], ()),
        ([], ()),
    ],
)
def test_a_zone_speaks_of_the_cpus_that_it_slows_down(rk3588, devices, cpus):
    sensors, root = rk3588
    folder = ZONE.removesuffix("/temp")
    write(root, {f"{folder}/cdev{n}/type": f"{name}\n" for n, name in enumerate(devices)})
    write(root, {f"{folder}/cdev0_trip_point": "1\n", ZONE: "84000\n"})
    speeds = sensors.read().speeds
    assert speeds == (Speeds(1.0, dict.fromkeys(cpus, 0.8)) if cpus else Speeds(0.8))


def test_several_clusters_at_once(rk3588, caplog):
    sensors, root = rk3588
    governor = Governor()
    write(root, {POLICY: "1800000\n", POLICY.replace("4", "6"): "1200000\n"})
    assert governor.update(sensors.read())
    assert [governor.speeds.of(cpu) for cpu in range(8)] == [1, 1, 1, 1, 0.75, 0.75, 0.5, 0.5]
    assert "reckoning with 50 % of the full speed of CPUs 6-7" in caplog.text
    # One falls while the other one rises: the lower one of each, until it is calm.
    write(root, {POLICY: "1200000\n", POLICY.replace("4", "6"): "2400000\n"})
    assert governor.update(sensors.read())
    assert [governor.speeds.of(cpu) for cpu in (0, 4, 6)] == [1, 0.5, 0.5]
    changed = [governor.update(sensors.read()) for _ in range(CALM_READINGS)]
    assert changed == [False] * (CALM_READINGS - 1) + [True]
    assert [governor.speeds.of(cpu) for cpu in (0, 4, 6)] == [1, 0.5, 1]


def test_zones_without_a_limit_say_nothing(tmp_path):
    write(tmp_path, {ZONE: "200000\n"})
    assert Sensors((Zone("thermal_zone1", "x"),), tmp_path).read().speed == 1


@pytest.mark.parametrize(
    "bits, speed", [("0", 1.0), ("50000", 1.0), ("1", 1.0), ("2", 0.6), ("e0008", 0.6), ("?", 1.0)]
)
def test_the_word_of_the_firmware(tmp_path, bits, speed):
    write(tmp_path, {"sys/devices/platform/soc/soc:firmware/get_throttled": f"{bits}\n"})
    assert Sensors((), tmp_path).read().speed == speed


def test_the_slowest_counts(rk3588):
    sensors, root = rk3588
    write(root, {POLICY: "1200000\n", ZONE: "90000\n"})
    assert sensors.read().speed == 0.5


def test_down_at_once_and_up_after_calm(caplog):
    caplog.set_level(logging.INFO)
    governor = Governor()
    assert not governor.update(Reading.of(1.0))
    assert governor.update(Reading.of(0.8, "hot"))
    assert not governor.update(Reading.of(0.8, "hot"))
    assert governor.update(Reading.of(0.5, "capped"))
    for _ in range(CALM_READINGS - 1):
        assert not governor.update(Reading.of(1.0))
    assert not governor.update(Reading.of(0.5, "capped"))
    for _ in range(CALM_READINGS - 1):
        assert not governor.update(Reading.of(1.0))
    assert governor.speeds.least == 0.5
    assert governor.update(Reading.of(1.0))
    assert governor.speeds.least == 1
    warnings = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert [r.getMessage() for r in warnings] == [
        "hot: reckoning with 80 % of the full speed",
        "capped: reckoning with 50 % of the full speed",
    ]
    assert {r.message_id for r in warnings} == {messages.THROTTLED}
    assert "cooler" in caplog.text


def test_watching(rk3588):
    sensors, root = rk3588
    threads, speeds = set(), []

    class Watched(Sensors):
        def read(self):
            threads.add(threading.get_ident())
            return super().read()

    async def main():
        changed = asyncio.Event()

        def set_speed(speed):
            assert threading.get_ident() == loop_thread
            speeds.append(speed.least)
            changed.set()

        loop_thread = threading.get_ident()
        task = asyncio.create_task(thermal.watch(Watched(sensors.zones, root), set_speed, 0.01))
        await asyncio.sleep(0.05)
        for frequency in (1_800_000, 2_400_000):
            changed.clear()
            write(root, {POLICY: f"{frequency}\n"})
            await asyncio.wait_for(changed.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert loop_thread not in threads

    asyncio.run(main())
    assert speeds == [0.75, 1.0]


def test_slower_cpus_start_later():
    """At half the clock, frames that took 0.9 of their length take 1.8: the rest must be ready before."""

    def started_with(speed: float) -> int:
        buffered = []

        async def test(rig: Rig) -> None:
            pipeline = rig.engine._pipeline
            pipeline._decode = Rated(pipeline._decode)
            rig.engine.set_speed(speed)
            set_plan = pipeline.pipe.set_plan
            text = "One two three four five six seven eight."
            plans = []
            pipeline.pipe = Spied(pipeline.pipe, plans)
            assert await rig.ended(rig.say(text)) is Reason.COMPLETED
            # Now the rate itself was measured at this speed.
            assert await rig.ended(rig.say(text)) is Reason.COMPLETED
            buffered.extend(plans)
            assert set_plan is not None

        drive(test, parts=FakeParts(eos_after=25))
        (first, frames), (second, _) = buffered
        assert frames > 20
        assert second == 0
        return first * 10 // (frames * 1920)

    assert started_with(1.0) == 0
    assert started_with(0.5) == 8


class Rated:
    """A decode loop whose measured rate is 0.9."""

    rate = 0.9

    def __init__(self, loop):
        self._loop = loop

    def counters(self):
        return self._loop.counters()


class Spied:
    """A pipe that notes its plans."""

    def __init__(self, pipe, plans):
        self._pipe, self._plans = pipe, plans

    def set_plan(self, prebuffer, frames):
        self._plans.append((prebuffer, frames))
        self._pipe.set_plan(prebuffer, frames)

    def __getattr__(self, name):
        return getattr(self._pipe, name)
