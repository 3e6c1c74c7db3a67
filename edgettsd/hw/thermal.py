"""Watching how warm the machine is: when it slows down, speech starts later instead of running dry.

Reads, every few seconds and in a worker thread:

- thermal zones that have a temperature from which the machine slows down;
- the highest clock that cpufreq allows now, against the highest that was ever allowed here;
- on a Raspberry Pi, the firmware's own word (get_throttled).

The result is one number, the share of the full clock at which the CPUs run or are about to run. It falls at
once, and rises only after some calm readings, so that a machine at its limit does not swing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgettsd import messages
from edgettsd.hw._files import Tree
from edgettsd.hw.profile import Zone

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 5.0
# So near to the slow-down temperature the clock is expected to fall soon.
NEAR_DEGREES = 3.0
# What is then expected: most governors take a step or two of about a tenth each.
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
    """One look: the speed that the caps leave (0..1], the hottest zone in relation to its limit, and why."""

    speed: float
    reason: str = ""


@dataclass(slots=True)
class Sensors:
    """What is read. `zones` come from the profile; those without a limit are left out."""

    zones: Sequence[Zone]
    root: Path = Path("/")
    _most: dict[str, int] = field(default_factory=dict)

    def read(self) -> Reading:
        """Read everything; files that are missing say nothing. Blocks for milliseconds on slow sensors."""
        tree = Tree(self.root)
        findings = [Reading(1.0), *self._caps(tree), *self._zones(tree)]
        try:
            bits = int(tree.text(_PI) or "0", 16)
        except ValueError:
            bits = 0
        if bits & _PI_SLOW:
            findings.append(Reading(_PI_SPEED, "the firmware has slowed the CPUs down"))
        return min(findings, key=lambda reading: reading.speed)

    def _caps(self, tree: Tree) -> list[Reading]:
        found = []
        for name in tree.names(_CPUFREQ, "policy[0-9]*"):
            allowed = tree.number(f"{_CPUFREQ}/{name}/scaling_max_freq")
            # A cap that an administrator set stands from the start; one for heat comes and goes.
            most = self._most[name] = max(self._most.get(name, 0), allowed)
            if 0 < allowed < _FULL * most:
                text = f"{name} is capped at {allowed // 1000} of {most // 1000} MHz"
                found.append(Reading(allowed / most, text))
        return found

    def _zones(self, tree: Tree) -> list[Reading]:
        found = []
        for zone in self.zones:
            degrees = tree.number(f"sys/class/thermal/{zone.name}/temp") / 1000
            if zone.trip_c and degrees >= zone.trip_c - NEAR_DEGREES:
                text = f"{zone.type} is at {degrees:.0f} C, the machine slows down at {zone.trip_c} C"
                found.append(Reading(EXPECTED_SPEED, text))
        return found


class Governor:
    """Turns readings into the speed to reckon with."""

    def __init__(self) -> None:
        self.speed = 1.0
        self._calm = 0

    def update(self, reading: Reading) -> bool:
        """Take a reading; returns whether `speed` has changed, which is then logged."""
        if reading.speed < self.speed:
            self._calm = 0
            self.speed = reading.speed
            log.warning(
                "%s: reckoning with %.0f %% of the full speed",
                reading.reason,
                100 * self.speed,
                extra={"message_id": messages.THROTTLED},
            )
            return True
        if reading.speed == self.speed:
            self._calm = 0
            return False
        self._calm += 1
        if self._calm < CALM_READINGS:
            return False
        self._calm = 0
        self.speed = reading.speed
        log.info("cooler: reckoning with %.0f %% of the full speed", 100 * self.speed)
        return True


async def watch(
    sensors: Sensors, set_speed: Callable[[float], None], interval: float = INTERVAL_SECONDS
) -> None:
    """Read every `interval` seconds and call `set_speed` on the loop when the speed changes; runs for ever.

    A reading that takes long (a sensor on a slow bus) delays the next one, never the loop.
    """
    governor = Governor()
    while True:
        begun = time.monotonic()
        reading = await asyncio.to_thread(sensors.read)
        if governor.update(reading):
            set_speed(governor.speed)
        await asyncio.sleep(max(interval / 2, interval - (time.monotonic() - begun)))
