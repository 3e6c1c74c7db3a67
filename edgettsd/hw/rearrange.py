"""Where the stages go when some CPUs run slower than others: away from a throttled cluster, and back again.

The number of threads stays, since kernels are made for it; what changes is the CPUs that they may use. A
stage whose CPUs the configuration names stays where it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from edgettsd.hw.placement import Cpus, one_node, usable_cores
from edgettsd.hw.profile import Profile

# A move is made where the slower stage has less than this share of the speed that it gives, because a smaller
# gain is not worth cold caches.
GAIN = 0.95


@dataclass(frozen=True, slots=True)
class Speeds:
    """Share of the full clock (above 0 to 1) at which CPUs run: of all, and lower ones of single CPUs."""

    all: float = 1.0
    cpus: Mapping[int, float] = field(default_factory=dict)

    def of(self, cpu: int) -> float:
        """Share of one CPU."""
        return min(self.all, self.cpus.get(cpu, 1.0))

    @property
    def least(self) -> float:
        """Share of the slowest CPU."""
        return min([self.all, *self.cpus.values()])

    def slower(self, other: Speeds) -> Speeds:
        """The lower share of both, CPU by CPU."""
        cpus = {cpu: min(self.of(cpu), other.of(cpu)) for cpu in (*self.cpus, *other.cpus)}
        return Speeds(min(self.all, other.all), cpus)


@dataclass(frozen=True, slots=True)
class Stage:
    """CPUs and threads of generator or decoder; `fixed`: its CPUs are configured."""

    cpus: Cpus
    threads: int
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Stages:
    """Both computing stages."""

    generator: Stage
    decoder: Stage


@dataclass(frozen=True, slots=True)
class Arrangement:
    """CPU sets of the stages, and the share of the full speed that the worse stage has there."""

    generator: Cpus
    decoder: Cpus
    speed: float


def rearrange(profile: Profile, stages: Stages, speeds: Speeds) -> Arrangement:
    """The best sets for these speeds: the given ones unless others are clearly better."""
    stay = arrangement(profile, stages, speeds, stages.generator.cpus, stages.decoder.cpus)
    found = [
        arrangement(profile, stages, speeds, first, second)
        for first, second in _candidates(profile, stages, speeds)
    ]
    # Among equally fast arrangements the one that moves the fewest threads is taken.
    best = max(
        [stay, *found],
        key=lambda a: (
            a.speed,
            (a.generator == stages.generator.cpus) + (a.decoder == stages.decoder.cpus),
        ),
    )
    return best if stay.speed < GAIN * best.speed else stay


def arrangement(profile: Profile, stages: Stages, speeds: Speeds, first: Cpus, second: Cpus) -> Arrangement:
    """The generator on the CPUs `first`, the decoder on `second`, at these speeds."""
    shares = [
        _slowest(profile, there, speeds) / _slowest(profile, stage.cpus, Speeds())
        for stage, there in ((stages.generator, first), (stages.decoder, second))
    ]
    return Arrangement(first, second, min(1.0, *shares))


def _slowest(profile: Profile, cpus: Cpus, speeds: Speeds) -> float:
    """Capacity of the slowest of these CPUs: the threads of an operator wait for each other."""
    known = {cpu.id: cpu.capacity for cpu in profile.cpus}
    return min((known.get(cpu, 1024) * speeds.of(cpu) for cpu in cpus), default=1024.0)


def _candidates(profile: Profile, stages: Stages, speeds: Speeds) -> list[tuple[Cpus, Cpus]]:
    """Sets on the fastest cores, the generator first, and the decoder first."""
    generator, decoder = stages.generator, stages.decoder
    fixed = {cpu for stage in (generator, decoder) if stage.fixed for cpu in stage.cpus}
    # Whole cores: the SMT sibling of a configured CPU is the same core.
    taken = {cpu.core for cpu in profile.cpus if cpu.id in fixed}
    usable = [profile.cpu(n) for n in profile.allowed if n not in profile.isolated]
    balanced = [cpu for cpu in usable if cpu.core not in taken]
    if not balanced:
        return []
    cores = usable_cores(one_node(balanced))
    # Whole clusters stay together: the sort is stable, and cores come ordered by cluster.
    fast = [cpu.id for cpu in sorted(cores, key=lambda cpu: -cpu.capacity * speeds.of(cpu.id))]
    if generator.fixed and decoder.fixed:
        return []
    if generator.fixed:
        return _with_room([(generator.cpus, _take(fast, 0, decoder))], stages)
    if decoder.fixed:
        return _with_room([(_take(fast, 0, generator), decoder.cpus)], stages)
    if set(generator.cpus) & set(decoder.cpus):
        every = tuple(sorted(fast[: len({*generator.cpus, *decoder.cpus})]))
        return _with_room([(every, every)], stages)
    first, second = len(generator.cpus), len(decoder.cpus)
    return _with_room(
        [
            (_take(fast, 0, generator), _take(fast, first, decoder)),
            (_take(fast, second, generator), _take(fast, 0, decoder)),
        ],
        stages,
    )


def _take(fast: Sequence[int], start: int, stage: Stage) -> Cpus:
    return tuple(sorted(fast[start : start + len(stage.cpus)]))


def _with_room(found: list[tuple[Cpus, Cpus]], stages: Stages) -> list[tuple[Cpus, Cpus]]:
    """Only sets that hold every thread of their stage on a core of its own, as the given ones do."""
    return [
        (first, second)
        for first, second in found
        if len(first) >= min(stages.generator.threads, len(stages.generator.cpus))
        and len(second) >= min(stages.decoder.threads, len(stages.decoder.cpus))
    ]
