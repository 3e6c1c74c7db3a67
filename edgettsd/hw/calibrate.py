"""Measure which split of the CPUs is fastest for this model on this machine, and remember it.

Every candidate runs the real engine for some seconds into a sink that takes everything at once. The result is
kept in a cache by a fingerprint of hardware, model and version. A machine on which others compute
is not measured.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import logging
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cython_kernels import _leftovers
from cython_kernels._libs import library_versions
from edgettsd import __version__, limits
from edgettsd.config import Config
from edgettsd.hw.adapt import Plan, adapt
from edgettsd.hw.isa import own_isa
from edgettsd.hw.load import CpuClock
from edgettsd.hw.profile import Profile
from edgettsd.hw.threads import PROCESS_CPUS

log = logging.getLogger(__name__)

FILE = "calibration.json"
FORMAT = 1
# Calibrations kept: models and versions that were used lately.
KEEP = 8
# Above this share of all CPU time taken by others a measurement says nothing.
BUSY = 0.1
# Seconds of speech of one run, runs of one candidate, and the time in which new candidates are begun.
SPEECH, RUNS, BUDGET = 2.4, 3, 45.0
# A candidate must be this much better than the planned split to replace it.
GAIN = 0.97
FRAME_SECONDS = 0.08


class BusyError(Exception):
    """Other processes use the CPUs; the message says how much."""


@dataclass(frozen=True, slots=True)
class Split:
    """Threads and CPUs of generator and decoder."""

    threads_generator: int
    threads_decoder: int
    cpus_generator: tuple[int, ...]
    cpus_decoder: tuple[int, ...]

    def applied(self, config: Config) -> Config:
        """The configuration with this split."""
        return dataclasses.replace(
            config, engine=dataclasses.replace(config.engine, **dataclasses.asdict(self))
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """One split's figures: time of a frame over its duration, and medians in ms by stage."""

    split: Split
    rate: float
    stages: dict[str, float] = field(default_factory=dict)

    def costs(self) -> dict[int, float]:
        """Seconds of a frame of the generator (0) and of a chunk of each size that was measured."""
        chunks = {
            int(name.removeprefix("decoder_")): ms / 1000
            for name, ms in self.stages.items()
            if name.startswith("decoder_") and ms > 0
        }
        frame = (self.stages.get("talker", 0.0) + self.stages.get("predictor", 0.0)) / 1000
        return chunks | ({0: frame} if frame > 0 else {})


@dataclass(frozen=True, slots=True)
class Calibration:
    """The best split, and everything that was measured."""

    best: Measured
    all: tuple[Measured, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        value: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return value

    @classmethod
    def from_dict(cls, value: Any) -> Calibration:
        """The inverse of to_dict; raises ValueError."""
        try:
            return cls(_measured(value["best"]), tuple(_measured(item) for item in value["all"]))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a calibration: {error!r}") from None


def _measured(value: Any) -> Measured:
    split = value["split"]
    numbers = [split["threads_generator"], split["threads_decoder"]]
    sets = [tuple(split["cpus_generator"]), tuple(split["cpus_decoder"])]
    if not all(type(n) is int and 1 <= n <= limits.MAX_THREADS for n in numbers):
        raise ValueError(f"threads are {numbers}: 1 to {limits.MAX_THREADS} expected")
    if not all(cpus and all(type(n) is int and n >= 0 for n in cpus) for cpus in sets):
        raise ValueError(f"CPU sets are {sets}: lists of CPU numbers expected")
    rate = float(value["rate"])
    if not 0 < rate < 1000:
        raise ValueError(f"rate is {rate}: above 0 and below 1000 expected")
    stages = {str(name): float(ms) for name, ms in value["stages"].items()}
    return Measured(Split(numbers[0], numbers[1], sets[0], sets[1]), rate, stages)


def fingerprint(profile: Profile, config: Config) -> str:
    """What a calibration is valid for: hardware, allowed CPUs, model, what is configured, and versions.

    Raises OSError when the model has no manifest.
    """
    manifest = (Path(config.model.path) / "manifest.json").read_bytes()
    engine = config.engine
    facts = {
        "version": __version__,
        "arch": profile.arch,
        "model": profile.model,
        "isa": [profile.isa, own_isa()],
        "cpus": [(c.id, c.core, c.capacity, c.max_mhz, c.kind) for c in profile.cpus],
        "allowed": profile.allowed,
        "manifest": hashlib.sha256(manifest).hexdigest(),
        "configured": [
            engine.threads_generator,
            engine.threads_decoder,
            engine.cpus_generator,
            engine.cpus_decoder,
        ],
        "schedule": [engine.schedule, engine.chunks],
        "accelerator": [engine.decoder_accelerator, engine.decoder_library, engine.n_gpu_layers],
        "context": engine.context,
        "libraries": library_versions(),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def load(folder: Path | None, key: str) -> Calibration | None:
    """The calibration for a fingerprint; None when there is none that can be read."""
    entry = _read(folder).get(key) if folder is not None else None
    if entry is None:
        return None
    try:
        return Calibration.from_dict(entry)
    except ValueError as error:
        log.warning("calibration ignored: %s", error)
        return None


def known(profile: Profile, config: Config, folder: Path | None) -> Calibration | None:
    """The calibration for this machine and model, when there is one that fits the CPUs allowed now."""
    try:
        calibration = load(folder, fingerprint(profile, config))
    except OSError:
        return None
    if calibration is not None:
        split = calibration.best.split
        if not set(split.cpus_generator + split.cpus_decoder) <= PROCESS_CPUS:
            return None
    return calibration


def save(folder: Path, key: str, calibration: Calibration) -> None:
    """Keep a calibration; raises OSError."""
    entries = _read(folder)
    entries.pop(key, None)
    entries = dict(list(entries.items())[-(KEEP - 1) :]) | {key: calibration.to_dict()}
    _leftovers.delete(folder.glob(f"{FILE}?*"))
    text = json.dumps({"format": FORMAT, "calibrations": entries}, indent=1)
    _leftovers.write(folder / FILE, text, mode=0o600)


def _read(folder: Path) -> dict[str, Any]:
    try:
        table = json.loads((folder / FILE).read_text(encoding="utf-8"))
        if table["format"] == FORMAT and isinstance(table["calibrations"], dict):
            return table["calibrations"]
        log.info("calibrations of another format are ignored")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("calibrations ignored: %s", error)
    return {}


def planned(plan: Plan) -> Split:
    """The split that follows from the machine without measuring."""
    return Split(plan.threads_generator, plan.threads_decoder, plan.cpus_generator, plan.cpus_decoder)


def candidates(profile: Profile, config: Config) -> list[Split]:
    """Splits worth measuring, the planned one first; only it when the configuration fixes the threads."""
    first = planned(adapt(profile, config))
    splits = [first]
    engine = config.engine
    if engine.threads_generator or engine.threads_decoder or engine.cpus_generator or engine.cpus_decoder:
        return splits
    used = {profile.cpu(n).core for n in first.cpus_generator + first.cpus_decoder}
    most = min(len(used), 4)
    apart = [(g, most - g) for g in range(1, most)]
    # Sharing: each stage may use all; and one thread each, which disturbs least.
    for generator, decoder in [*apart, (most, most), (1, 1)]:
        wish = dataclasses.replace(engine, threads_generator=generator, threads_decoder=decoder)
        split = planned(adapt(profile, dataclasses.replace(config, engine=wish)))
        if split not in splits:
            splits.append(split)
    return splits


# Rate, medians by stage, and others' share of the CPUs.
Figures = tuple[float, dict[str, float], float]
# Runs the engine: configuration, seconds of speech, how often.
Run = Callable[[Config, float, int], Awaitable[list[Figures]]]


async def measure(profile: Profile, config: Config, run: Run, budget: float = BUDGET) -> Calibration:
    """Measure the candidates, as many as begin within `budget` seconds. Raises BusyError."""
    began = time.monotonic()
    measured: list[Measured] = []
    for split in candidates(profile, config):
        if measured and time.monotonic() - began > budget:
            log.info("calibration: no time left for %s", split)
            break
        measured.append(_median(split, await run(split.applied(config), SPEECH, RUNS)))
        log.info("calibration: %s takes %.2f of real time", split, measured[-1].rate)
    best = min(measured, key=lambda m: m.rate)
    if best.rate > measured[0].rate * GAIN:
        best = measured[0]
    return Calibration(best, tuple(measured))


def _median(split: Split, runs: list[Figures]) -> Measured:
    """The middle one of the runs that nobody disturbed; raises BusyError when that is less than half."""
    calm = sorted((run for run in runs if run[2] <= BUSY), key=lambda run: run[0])
    if len(calm) * 2 < len(runs) or not calm:
        share = statistics.median(run[2] for run in runs)
        raise BusyError(f"other processes take {share:.0%} of the CPUs; at most {BUSY:.0%} is allowed")
    rate, stages, _ = calm[len(calm) // 2]
    return Measured(split, round(rate, 4), stages)


async def run_engine(config: Config, seconds: float, runs: int) -> list[Figures]:
    """The real engine as `Run`; the first utterance warms up and is not measured."""
    from edgettsd.engine.trial import Trial

    # The queue ahead never holds the generator back, so that the pace is measured.
    free = dataclasses.replace(config, engine=dataclasses.replace(config.engine, buffer_seconds=60.0))
    results = []
    async with Trial(free) as trial:
        await trial.speak(seconds=2 * FRAME_SECONDS)
        for number in range(runs):
            spoken = await trial.speak(seconds=seconds, seed=number + 1)
            if spoken.frames == 0:
                raise RuntimeError(f"calibration: the model spoke nothing, reason {spoken.reason}")
            spent = (spoken.attribution["wall"] - spoken.attribution["front_end"]) / 1000
            report = trial.engine.steps.report([spoken.generation])
            stages: dict[str, float] = {
                name: report[name]["median"] for name in ("talker", "predictor") if name in report
            }
            for size, entry in report.get("decoder", {}).items():
                stages[f"decoder_{size}"] = entry["median"]
            results.append((spent / spoken.audio, stages, spoken.foreign))
    return results


async def calibrate(profile: Profile, config: Config, folder: Path | None) -> Calibration:
    """Measure and keep the result in `folder`. Raises BusyError, SpeechError, OSError."""
    clock = CpuClock()
    await asyncio.sleep(0.5)
    _, foreign = clock.read()
    if foreign > BUSY:
        raise BusyError(f"other processes take {foreign:.0%} of the CPUs; at most {BUSY:.0%} is allowed")
    result = await measure(profile, config, run_engine)
    if folder is not None:
        save(folder, fingerprint(profile, config), result)
    return result


def table(calibration: Calibration) -> Iterator[str]:
    """The measurements as lines of text; * marks the chosen one."""
    yield "   generator       decoder         rate   ms by stage"
    for entry in calibration.all:
        split, mark = entry.split, "*" if entry == calibration.best else " "
        sets = [
            f"{threads} on {','.join(map(str, cpus))}"
            for threads, cpus in (
                (split.threads_generator, split.cpus_generator),
                (split.threads_decoder, split.cpus_decoder),
            )
        ]
        stages = "  ".join(f"{name} {ms:.1f}" for name, ms in entry.stages.items())
        yield f" {mark} {sets[0]:15} {sets[1]:15} {entry.rate:.3f}  {stages}"
