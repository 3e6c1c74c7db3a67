"""What follows from the machine: CPU sets, threads, precision, budgets. A pure function with its reasons.

Whatever the configuration says wins. Numbers are decided here once, before the model is loaded; what changes
while the daemon runs is `edgettsd.hw.thermal`'s.
"""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from typing import Any, Literal

from edgettsd.config import Config
from edgettsd.hw.placement import MOST_THREADS, place, ranges
from edgettsd.hw.profile import Profile
from edgettsd.hw.rearrange import Speeds, Stage, Stages, rearrange
from edgettsd.hw.speed import decoder_ms, gflops
from edgettsd.hw.threads import PROCESS_CPUS

log = logging.getLogger(__name__)

Origin = Literal["config", "machine", "model"]

FRAME_MS = 80.0
# The exact decoder must leave this share of a frame's time free.
_DECODER_SHARE = 0.8
# Machines with at least this many cores have memory that is fast enough for 8-bit weights.
_Q8_CORES = 8
# MB that a model needs at run time: weights, caches, packed decoder.
_NEEDS_MB = {"1.7b": 2000, "0.6b": 900}
_STALL_SECONDS, _SLOW_STALL_SECONDS = 30.0, 60.0
_SLOW_GFLOPS = 30.0


@dataclass(frozen=True, slots=True)
class Decision:
    """One choice: its value, where it comes from, and why in a sentence."""

    name: str
    value: Any
    origin: Origin
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that was decided. CPU sets are ascending and never empty."""

    cpus_generator: tuple[int, ...]
    cpus_decoder: tuple[int, ...]
    cpus_playout: tuple[int, ...]
    cpus_loop: tuple[int, ...]
    threads_generator: int
    threads_decoder: int
    # Which bundle to choose for this machine; a bundle that is loaded has a precision and size of its own.
    precision_talker: str
    precision_decoder: str
    model_size: str
    # Empty where the model's proposal is taken.
    schedule: str
    chunks: tuple[int, ...]
    # The daemon's memory that a bundle may need, in MB.
    memory_mb: int
    # A thread without progress for this long counts as dead.
    stall_seconds: float
    decisions: tuple[Decision, ...]

    def applied(self, config: Config) -> Config:
        """The configuration with the plan's CPU sets and threads, for the parts that need one.

        Sets that were chosen but do not exist here, as when another machine is emulated, are left out.
        """
        values: dict[str, Any] = {
            "threads_generator": self.threads_generator,
            "threads_decoder": self.threads_decoder,
        }
        for name in ("cpus_generator", "cpus_decoder", "cpus_playout"):
            cpus = getattr(self, name)
            if self.origin(name) == "config" or set(cpus) <= PROCESS_CPUS:
                values[name] = cpus
            else:
                log.warning("%s = %s: not pinned, CPUs allowed here are %s", name, cpus, sorted(PROCESS_CPUS))
        return dataclasses.replace(config, engine=dataclasses.replace(config.engine, **values))

    def origin(self, name: str) -> Origin:
        """Where a decision comes from; raises KeyError."""
        for decision in self.decisions:
            if decision.name == name:
                return decision.origin
        raise KeyError(name)


def adapt(profile: Profile, config: Config) -> Plan:
    """Decide for this machine and configuration."""
    engine = config.engine
    made: list[Decision] = []

    def decide(name: str, configured: Any, value: Any, reason: str, origin: Origin = "machine") -> Any:
        """Note a decision; what is configured wins."""
        if configured:
            made.append(Decision(name, configured, "config", f"[engine] {name} in the configuration"))
            return configured
        made.append(Decision(name, value, origin, reason))
        return value

    at = place(
        profile,
        engine.cpus_generator,
        engine.cpus_decoder,
        engine.cpus_playout,
        (engine.threads_generator, engine.threads_decoder),
    )
    generator = decide("cpus_generator", engine.cpus_generator, at.generator, at.why_generator)
    decoder = decide("cpus_decoder", engine.cpus_decoder, at.decoder, at.why_decoder)
    playout = decide("cpus_playout", engine.cpus_playout, at.playout, at.why_playout)
    loop = decide(
        "cpus_loop", (), at.loop, at.why_playout if at.loop == at.playout else "the CPUs that do not compute"
    )
    threads = []
    for name, cpus, wish in (
        ("threads_generator", generator, engine.threads_generator),
        ("threads_decoder", decoder, engine.threads_decoder),
    ):
        count, why = _threads(profile, cpus)
        threads.append(decide(name, wish, count, why))
        if wish > len(cpus):
            made[-1] = Decision(name, wish, "config", f"configured, but more than its {len(cpus)} CPUs: slow")
    peak = gflops([c for c in profile.cpus if c.id in decoder], profile.isa)
    talker_precision, why = _talker_precision(profile)
    decide("precision_talker", "", talker_precision, why)
    decoder_precision, why = _decoder_precision(peak)
    decide("precision_decoder", "", decoder_precision, why)
    memory, why = _memory(profile)
    decide("memory_mb", 0, memory, why)
    size = next((name for name, need in _NEEDS_MB.items() if memory >= need), "built-in")
    needs = ", ".join(f"{name} needs {need} MB" for name, need in _NEEDS_MB.items())
    decide("model_size", "", size, f"the largest that fits in memory, whatever its speed: {needs}")
    decide(
        "schedule",
        engine.schedule,
        "",
        "as the model proposes: small chunks first, then larger ones",
        "model",
    )
    decide("chunks", engine.chunks, (), "as the model proposes: the sizes its decoder was built for", "model")
    stages = Stages(
        Stage(generator, threads[0], bool(engine.cpus_generator)),
        Stage(decoder, threads[1], bool(engine.cpus_decoder)),
    )
    decide("when_hot", "", *_when_hot(profile, stages))
    chosen = "" if engine.decoder_accelerator == "cpu" else engine.decoder_accelerator
    decide("decoder_accelerator", chosen, "cpu", _why_no_gpu(profile))
    decide("n_gpu_layers", engine.n_gpu_layers, 0, _why_no_layers(profile))
    if profile.npu:
        made.append(Decision("npu", "unused", "machine", f"no operator of the models runs on {profile.npu}"))
    stall, why = _stall(gflops([c for c in profile.cpus if c.id in generator], profile.isa))
    decide("stall_seconds", 0, stall, why)
    return Plan(
        generator,
        decoder,
        playout,
        loop,
        threads[0],
        threads[1],
        talker_precision,
        decoder_precision,
        size,
        engine.schedule,
        engine.chunks,
        memory,
        stall,
        tuple(made),
    )


def _threads(profile: Profile, cpus: tuple[int, ...]) -> tuple[int, str]:
    """Compute threads for a CPU set: one a physical core, SMT siblings counted once."""
    known = [cpu for cpu in profile.cpus if cpu.id in cpus]
    balanced = {cpu.core for cpu in known if cpu.id not in profile.isolated}
    cores = len(balanced) or 1
    count = min(cores, MOST_THREADS, len(cpus))
    if not balanced:
        return 1, "isolated CPUs: nothing spreads threads over several"
    if count < cores:
        return count, f"more than {MOST_THREADS} threads wait for each other"
    siblings = "" if len(known) == cores else ", SMT siblings counted once"
    return count, f"one for each of its cores{siblings}"


def _talker_precision(profile: Profile) -> tuple[str, str]:
    cores = len({profile.cpu(number).core for number in profile.allowed})
    if profile.machine in ("x86", "cuda", "other") and cores >= _Q8_CORES:
        return "q8_0", f"{cores} cores: memory is likely fast enough for 8-bit weights"
    return "q4_0", "memory bandwidth sets the pace, and q4_0 reads half of what q8_0 does"


def _decoder_precision(peak: float | None) -> tuple[str, str]:
    if peak is None:
        return "f32", "exact; the CPUs' clock is not known, so its time cannot be projected"
    time = decoder_ms(peak)
    if time > _DECODER_SHARE * FRAME_MS:
        return "int8", f"the exact decoder would take about {time:.0f} ms of each {FRAME_MS:.0f} ms frame"
    return "f32", f"exact, and takes about {time:.0f} ms of each {FRAME_MS:.0f} ms frame"


def _memory(profile: Profile) -> tuple[int, str]:
    limit = profile.memory_limit_mb
    if limit and limit < profile.ram_mb:
        return limit * 9 // 10, f"nine tenths of the control group's {limit} MB"
    shared = ", which the GPU shares" if profile.gpu == "tegra" else ""
    return profile.ram_mb * 6 // 10, f"six tenths of {profile.ram_mb} MB of memory{shared}"


def _when_hot(profile: Profile, stages: Stages) -> tuple[str, str]:
    """What happens when the clock of the generator's or the decoder's clusters falls to half."""
    moves = []
    for name, stage in (("generator", stages.generator), ("decoder", stages.decoder)):
        clusters = {cpu.cluster for cpu in profile.cpus if cpu.id in stage.cpus}
        slow = {cpu.id: 0.5 for cpu in profile.cpus if cpu.cluster in clusters}
        there = rearrange(profile, stages, Speeds(1.0, slow))
        cpus = there.generator if name == "generator" else there.decoder
        if cpus != stage.cpus:
            moves.append(f"the {name} to CPUs {ranges(cpus)} when its own run at half speed")
    if moves:
        return "move", "; ".join(moves) + "; else speech starts later"
    return "wait", "speech starts later: no other CPUs are faster than these at half speed"


def _why_no_gpu(profile: Profile) -> str:
    """Why the decoder is on the CPU unless the configuration says otherwise."""
    drivers = [name for name in ("vulkan", "opencl") if getattr(profile, name)]
    if not drivers:
        return "neither a Vulkan nor an OpenCL driver was found"
    return f'exact and predictable; decoder_accelerator = "auto" tries the GPU ({", ".join(drivers)})'


def _why_no_layers(profile: Profile) -> str:
    """Why the language model is on the CPU unless the configuration says otherwise."""
    if profile.gpu == "none":
        return "no GPU of NVIDIA's was found"
    memory = "whose memory is the CPUs' too" if profile.gpu == "tegra" else "with memory of its own"
    return f"a GPU {memory}: n_gpu_layers = 99 uses it where libllama has its back end"


def _stall(peak: float | None) -> tuple[float, str]:
    if peak is not None and peak < _SLOW_GFLOPS:
        return _SLOW_STALL_SECONDS, f"a long prompt takes long at {peak:.0f} GFLOP/s"
    return _STALL_SECONDS, "the longest single step is a prompt"
