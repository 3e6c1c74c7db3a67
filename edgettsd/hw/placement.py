"""Which CPUs each stage gets: a pure function of the profile, the wished thread counts and fixed sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgettsd.hw.profile import BIG_SHARE, Cpu, Profile

# One stage gets no more threads than this, because more of them lose more time waiting for each other.
MOST_THREADS = 4
# Machines with at least this many cores keep one free for everything but computing.
SPARE_FROM = 5

Cpus = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """CPU sets of the stages, and why they are so."""

    generator: Cpus
    decoder: Cpus
    playout: Cpus
    loop: Cpus
    why_generator: str
    why_decoder: str
    why_playout: str


def place(
    profile: Profile,
    generator: Cpus = (),
    decoder: Cpus = (),
    playout: Cpus = (),
    threads: tuple[int, int] = (0, 0),
) -> Placement:
    """Sets for the stages whose set is not given; `threads` are wished counts of both, 0: any.

    Generator and decoder share no core unless there are but one or two, or their wished threads need it. A
    CPU outside the scheduler's balancing is not used for computing: threads pinned to several such CPUs all
    stay on the first.
    """
    allowed = [profile.cpu(number) for number in profile.allowed]
    balanced = [cpu for cpu in allowed if cpu.id not in profile.isolated]
    isolated = [cpu.id for cpu in allowed if cpu.id in profile.isolated]
    if not balanced:
        return _isolated_only(isolated, generator, decoder, playout)
    near = one_node(balanced)
    cores = usable_cores(near)
    taken = {cpu.core for cpu in allowed if cpu.id in generator + decoder}
    free = [core for core in cores if core.id not in taken] or cores
    spare = tuple(cpu.id for cpu in near if cpu not in cores)
    if generator and decoder:
        rest = _ids(free) if free is not cores else _ids(near)
        split = _Split(generator, decoder, rest, "", "", "the CPUs that do not compute")
    elif generator:
        split = _Split(
            generator, _ids(free)[: threads[1] or MOST_THREADS], _ids(near), "", "beside the generator", "any"
        )
    elif decoder:
        split = _Split(
            _ids(free)[: threads[0] or MOST_THREADS], decoder, _ids(near), "beside the decoder", "", "any"
        )
    elif max(threads) and threads[0] + threads[1] > len(cores) > 1:
        every, why = (
            _ids(cores),
            "the configured threads of both stages are more than there are cores: shared",
        )
        split = _Split(every, every, every, why, why, "any CPU: real-time priority puts it first")
    else:
        split = _split(cores, spare, threads)
    house = split.house
    own = playout or (tuple(isolated[:1]) or house)
    why = "an isolated CPU: nothing else disturbs it" if isolated and not playout else split.why_house
    return Placement(split.generator, split.decoder, own, house, split.why_generator, split.why_decoder, why)


@dataclass(frozen=True, slots=True)
class _Split:
    generator: Cpus
    decoder: Cpus
    house: Cpus
    why_generator: str
    why_decoder: str
    why_house: str


def _ids(cpus: Sequence[Cpu]) -> Cpus:
    return tuple(sorted(cpu.id for cpu in cpus))


def one_node(cpus: Sequence[Cpu]) -> list[Cpu]:
    """The CPUs of the memory node that has most of them: weights are then read from near memory."""
    counts: dict[int, int] = {}
    for cpu in cpus:
        counts[cpu.node] = counts.get(cpu.node, 0) + 1
    best = min(counts, key=lambda node: (-counts[node], node))
    return [cpu for cpu in cpus if cpu.node == best]


def usable_cores(cpus: Sequence[Cpu]) -> list[Cpu]:
    """One CPU a physical core, the lowest of those usable, ordered by cluster."""
    lowest: dict[int, Cpu] = {}
    for cpu in cpus:
        lowest.setdefault(cpu.core, cpu)
    return sorted(lowest.values(), key=lambda cpu: (cpu.cluster, cpu.id))


def _split(cores: list[Cpu], spare: Cpus, threads: tuple[int, int]) -> _Split:
    most = max(cpu.capacity for cpu in cores)
    big = [cpu for cpu in cores if cpu.capacity >= BIG_SHARE * most]
    little = [cpu for cpu in cores if cpu.capacity < BIG_SHARE * most]
    if little:
        return _big_little(big, little, threads)
    if len(cores) == 1:
        why, house = "the only core", tuple(sorted({cores[0].id, *spare}))
        return _Split((cores[0].id,), (cores[0].id,), house, why, why, "real-time priority puts it first")
    if len(cores) == 2 and not any(threads):
        why, every = "two cores: both stages have both, and take turns", _ids(cores)
        house = spare or every
        return _Split(every, every, house, why, why, "real-time priority puts it first")
    if len(cores) < SPARE_FROM:
        first, second = _halves(cores, threads)
        everywhere = _ids(cores)
        house, why = (
            spare or everywhere,
            "SMT siblings that do not compute" if spare else "too few CPUs to keep one free",
        )
        return _Split(
            _ids(first), _ids(second), house, _count(first), _count(second) + " apart from the generator", why
        )
    kept = min(cores, key=lambda cpu: cpu.id)
    rest = [cpu for cpu in cores if cpu is not kept]
    first, second = _halves(rest, threads)
    house = tuple(sorted({cpu.id for cpu in cores} - {cpu.id for cpu in first + second}))
    return _Split(
        _ids(first),
        _ids(second),
        house,
        _count(first),
        _count(second) + " apart from the generator",
        "kept free of computing; interrupts arrive at the lowest CPU",
    )


def _big_little(big: list[Cpu], little: list[Cpu], threads: tuple[int, int]) -> _Split:
    if len(big) >= 4:
        first, second = _halves(big, threads)
        unused = [cpu for cpu in big if cpu not in first + second]
        house = little or unused
        return _Split(
            _ids(first),
            _ids(second),
            _ids(house),
            _count(first, "big "),
            _count(second, "big ")
            + " apart from the generator: little ones are too slow for the convolutions",
            "the little cluster",
        )
    decoder = little[1:] if len(little) > 1 else little
    decoder = decoder[-(threads[1] or MOST_THREADS) :]
    house = [cpu for cpu in little if cpu not in decoder] or little
    first = big[: threads[0] or MOST_THREADS]
    return _Split(
        _ids(first),
        _ids(decoder),
        _ids(house),
        _count(first, "big "),
        _count(decoder, "little ") + ": the big cluster is too small for both",
        "a little core",
    )


def _halves(cores: list[Cpu], threads: tuple[int, int]) -> tuple[list[Cpu], list[Cpu]]:
    """Cores for generator and decoder: the wished counts, or about half each, along clusters' borders.

    The generator has the odd one: it is the slower stage everywhere.
    """
    count = len(cores)
    if any(threads):
        second = min(threads[1] or min(MOST_THREADS, max(1, count - threads[0])), count - 1)
        first = min(threads[0] or min(MOST_THREADS, count - second), count - second)
        return cores[:first], cores[first : first + second]
    half = min((count + 1) // 2, MOST_THREADS)
    for first in (half, half - 1):
        sizes_fit = first >= 1 and count - first <= MOST_THREADS
        if sizes_fit and cores[first - 1].cluster != cores[first].cluster:
            half = first
            break
    # Whole clusters are preferred, because threads that wait for each other then share a cache and a clock.
    spare = max(0, count - 2 * half)
    at = max(range(spare + 1), key=lambda start: _whole(cores[start:], half))
    return cores[at : at + half], cores[at + half : at + half + MOST_THREADS]


def _whole(cores: list[Cpu], half: int) -> int:
    """How many of the two groups of `half` cores at the front lie in one cluster each."""
    groups = cores[:half], cores[half : 2 * half]
    return sum(len({cpu.cluster for cpu in group}) == 1 for group in groups)


def _count(cores: Sequence[Cpu], kind: str = "") -> str:
    return f"{len(cores)} {kind}core{'s' if len(cores) > 1 else ''}"


def _isolated_only(cpus: list[int], generator: Cpus, decoder: Cpus, playout: Cpus) -> Placement:
    """Every CPU is isolated: one for each stage, since nothing spreads threads over them."""
    why = "one isolated CPU: nothing spreads threads over several"
    first = generator or (cpus[0],)
    left = [cpu for cpu in cpus if cpu not in first] or cpus
    second = decoder or (left[0],)
    rest = tuple(cpu for cpu in cpus if cpu not in first + second) or tuple(cpus)
    return Placement(first, second, playout or rest, rest, why, why, "isolated CPUs that do not compute")


def ranges(cpus: Sequence[int]) -> str:
    """CPU numbers as the kernel writes them: 0-3,6."""
    parts: list[list[int]] = []
    for cpu in cpus:
        if parts and cpu == parts[-1][1] + 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
