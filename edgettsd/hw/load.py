"""Who uses the CPUs: this process, or others."""

from __future__ import annotations

import os
import time
from pathlib import Path


def cpu_seconds() -> tuple[float, float] | None:
    """(busy, all) seconds of all CPUs since boot, from /proc/stat; None where there is none."""
    try:
        first = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()
        # user nice system idle iowait irq softirq steal; guest time is in user already.
        values = [int(value) for value in first[1:9]]
    except (OSError, ValueError, IndexError):
        return None
    if first[0] != "cpu" or len(values) < 4:
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    idle = values[3] + (values[4] if len(values) > 4 else 0)
    return (sum(values) - idle) / ticks, sum(values) / ticks


class CpuClock:
    """CPU time of this process and the share that others took, from its creation on."""

    def __init__(self) -> None:
        self._own = time.process_time()
        self._all = cpu_seconds()

    def read(self) -> tuple[float, float]:
        """(CPU seconds of this process, other processes' share of all CPUs' time, 0 to 1)."""
        own, now = time.process_time() - self._own, cpu_seconds()
        if now is None or self._all is None or now[1] <= self._all[1]:
            return own, 0.0
        foreign = (now[0] - self._all[0] - own) / (now[1] - self._all[1])
        return own, min(1.0, max(0.0, foreign))
