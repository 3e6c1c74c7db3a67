"""How fast a CPU computes, from its kind and clock: the sums behind recommendations and projections."""

from __future__ import annotations

from collections.abc import Iterable

from edgettsd.hw.profile import Cpu

# Single-precision operations of one frame (80 ms) of the codec decoder, in GFLOP: as plain convolutions; the
# seven-tap ones (3.52 of it) take 10 multiplications instead of 28 as Toom-Cook F(4,7).
DECODER_GFLOP = 4.96
DECODER_TOOM_GFLOP = 4.96 - 3.52 * (1 - 10 / 28)
# Share of the peak that is reached with them; see docs/boards.md for the measurement.
DIRECT_EFFICIENCY = 0.95
TOOM_EFFICIENCY = 0.75

# Cores with one 128-bit multiply-add a cycle (or two of 64 bits); the others have two.
_NARROW = ("cortex-a53", "cortex-a55", "cortex-a57", "cortex-a72", "cortex-a73", "cortex-a510", "cortex-a520")


def flop_per_cycle(kind: str, isa: Iterable[str]) -> int:
    """Peak single-precision operations a cycle of one core; a multiply-add counts as two."""
    names = set(isa)
    if "neon" in names:
        if kind == "cortex-a35":
            return 4
        return 8 if kind in _NARROW or not kind else 16
    return 32 if names & {"avx512", "fma"} else 8


def gflops(cpus: Iterable[Cpu], isa: Iterable[str]) -> float | None:
    """Peak of these CPUs together, SMT siblings counted once; None when a clock is not known."""
    names = tuple(isa)
    cores = {cpu.core: cpu for cpu in cpus}
    if not cores or not all(cpu.max_mhz for cpu in cores.values()):
        return None
    return sum(cpu.max_mhz / 1000 * flop_per_cycle(cpu.kind, names) for cpu in cores.values())


def decoder_ms(peak_gflops: float) -> float:
    """Time of one frame in the exact (f32, Toom-Cook) decoder."""
    return DECODER_TOOM_GFLOP / (peak_gflops * TOOM_EFFICIENCY) * 1000
