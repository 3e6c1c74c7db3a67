"""Watching how warm the machine is: speech moves to cooler CPUs, or starts later, instead of running dry.

Reads, every few seconds and in a worker thread:

- the highest clock that cpufreq allows now, against the highest that was ever allowed here, by cluster;
- thermal zones that have a temperature from which the machine slows down; a zone whose cooling device is the
  clock of one cluster speaks of that cluster, any other of all CPUs;
- on a Raspberry Pi, the firmware's own word (get_throttled).

The result are the shares of the full clock at which the CPUs run or are about to run. They fall at once, and
rise only after some calm readings, so that a machine at its limit does not swing. What follows from them is
`edgettsd.hw.rearrange`'s (where each stage runs) and the engine's (how much it has ready before it plays).
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgettsd import messages
from edgettsd.hw._files import Tree
from edgettsd.hw.placement import ranges
from edgettsd.hw.profile import Zone
from edgettsd.hw.rearrange import Speeds

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 5.0
# At this distance from the slow-down temperature the clock is expected to fall soon.
NEAR_DEGREES = 3.0
# The clock that is then expected, because most governors go down by a step or two of about a tenth each.
EXPECTED_SPEED = 0.8
# Readings without trouble before the speed rises again.
CALM_READINGS = 6
# A cap less than this below the full clock is a matter of rounding.
_FULL = 0.97

_CPUFREQ = "sys/devices/system/cpu/cpufreq"
_PI = "sys/devices/platform/soc/soc:firmware/get_throttled"
# Bits of get_throttled for now: clock capped, throttled, soft temperature limit.
_PI_SLOW = 0b1110
_PI_SPEED = 0.6


@dataclass(frozen=True, slots=True)
class Reading:
    """One look: the speeds that are left, and why the slowest CPU is slow."""

    speeds: Speeds = field(default_factory=Speeds)
    reason: str = ""

    @classmethod
    def of(cls, speed: float, reason: str = "", cpus: Sequence[int] = ()) -> Reading:
        """A finding about `cpus`; empty: all of them."""
        return cls(Speeds(1.0, dict.fromkeys(cpus, speed)) if cpus else Speeds(speed), reason)

    @property
    def speed(self) -> float:
        """Share of the slowest CPU."""
        return self.speeds.least


@dataclass(slots=True)
class Sensors:
    """What is read. `zones` come from the profile; those without a limit are left out."""

    zones: Sequence[Zone]
    root: Path = Path("/")
    _most: dict[str, int] = field(default_factory=dict)

    def read(self) -> Reading:
        """Read everything; files that are missing say nothing. Blocks for milliseconds on slow sensors."""
        tree = Tree(self.root)
        findings = [Reading(), *self._caps(tree), *self._zones(tree)]
        try:
            bits = int(tree.text(_PI) or "0", 16)
        except ValueError:
            bits = 0
        if bits & _PI_SLOW:
            findings.append(Reading.of(_PI_SPEED, "the firmware has slowed the CPUs down"))
        speeds = Speeds()
        for finding in findings:
            speeds = speeds.slower(finding.speeds)
        return Reading(speeds, min(findings, key=lambda reading: reading.speed).reason)

    def _caps(self, tree: Tree) -> list[Reading]:
        found = []
        for name in tree.names(_CPUFREQ, "policy[0-9]*"):
            allowed = tree.number(f"{_CPUFREQ}/{name}/scaling_max_freq")
            # An administrator's cap stands from the start, so it is the full clock here; a cap for heat comes
            # and goes.
            most = self._most[name] = max(self._most.get(name, 0), allowed)
            if 0 < allowed < _FULL * most:
                text = f"{name} is capped at {allowed // 1000} of {most // 1000} MHz"
                found.append(Reading.of(allowed / most, text, _cpus_of(tree, name)))
        return found

    def _zones(self, tree: Tree) -> list[Reading]:
        found = []
        for zone in self.zones:
            degrees = tree.number(f"sys/class/thermal/{zone.name}/temp") / 1000
            if zone.trip_c and degrees >= zone.trip_c - NEAR_DEGREES:
                text = f"{zone.type} is at {degrees:.0f} C, the machine slows down at {zone.trip_c} C"
                found.append(Reading.of(EXPECTED_SPEED, text, _cooled_by(tree, zone.name)))
        return found


def _cpus_of(tree: Tree, policy: str) -> tuple[int, ...]:
    """CPUs of a cpufreq policy: those that share a clock; empty when it does not say."""
    return tree.numbers(f"{_CPUFREQ}/{policy}/related_cpus")


def _cooled_by(tree: Tree, zone: str) -> tuple[int, ...]:
    """CPUs whose clock the kernel lowers when this zone is hot; empty: not known, or not of CPUs alone."""
    folder, cpus = f"sys/class/thermal/{zone}", set[int]()
    devices = [name for name in tree.names(folder, "cdev[0-9]*") if name.removeprefix("cdev").isdecimal()]
    for device in devices:
        match = re.fullmatch(r"cpufreq-cpu(\d+)", tree.text(f"{folder}/{device}/type"))
        if match is None:
            return ()
        first = int(match[1])
        cpus |= set(_cpus_of(tree, f"policy{first}") or (first,))
    return tuple(sorted(cpus))


class Governor:
    """Turns readings into the speeds to reckon with."""

    def __init__(self) -> None:
        self.speeds = Speeds()
        self._calm = 0

    def update(self, reading: Reading) -> bool:
        """Take a reading; returns whether `speeds` have changed, which is then logged."""
        lowest = self.speeds.slower(reading.speeds)
        if any(lowest.of(cpu) < self.speeds.of(cpu) for cpu in (-1, *lowest.cpus)):
            self._calm = 0
            self.speeds = lowest
            log.warning(
                "%s: reckoning with %.0f %% of the full speed%s",
                reading.reason,
                100 * reading.speed,
                _where(reading.speeds),
                extra={"message_id": messages.THROTTLED},
            )
            return True
        if all(reading.speeds.of(cpu) == self.speeds.of(cpu) for cpu in (-1, *self.speeds.cpus)):
            self._calm = 0
            return False
        self._calm += 1
        if self._calm < CALM_READINGS:
            return False
        self._calm = 0
        self.speeds = reading.speeds
        log.info(
            "cooler: reckoning with %.0f %% of the full speed%s", 100 * reading.speed, _where(reading.speeds)
        )
        return True


def _where(speeds: Speeds) -> str:
    """Which CPUs the least speed is of; empty for all."""
    slow = [cpu for cpu, share in sorted(speeds.cpus.items()) if share == speeds.least]
    if not slow or speeds.all == speeds.least:
        return ""
    return f" of CPU{'s' if len(slow) > 1 else ''} {ranges(slow)}"


async def watch(
    sensors: Sensors, changed: Callable[[Speeds], None], interval: float = INTERVAL_SECONDS
) -> None:
    """Read every `interval` seconds and call `changed` on the loop when speeds change; runs for ever.

    A reading that takes long (a sensor on a slow bus) delays the next one, never the loop.
    """
    governor = Governor()
    while True:
        begun = time.monotonic()
        reading = await asyncio.to_thread(sensors.read)
        if governor.update(reading):
            changed(governor.speeds)
        await asyncio.sleep(max(interval / 2, interval - (time.monotonic() - begun)))
