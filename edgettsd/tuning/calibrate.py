"""Measure which split of the CPUs is fastest for this model on this machine.

Every candidate runs the real engine for some seconds into a sink that takes everything at once. A machine on
which others compute is not measured. What comes out is kept by `edgettsd.hw.calibration`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from edgettsd.config import Config
from edgettsd.hw.adapt import Plan, adapt
from edgettsd.hw.calibration import Calibration, Measured, Split, fingerprint, save
from edgettsd.hw.load import CpuClock
from edgettsd.hw.profile import Profile
from edgettsd.tuning.trial import Trial

log = logging.getLogger(__name__)

# Above this share of all CPU time taken by others a measurement says nothing.
BUSY = 0.1
# Seconds of speech of one run, runs of one candidate, and the time in which new candidates are begun.
SPEECH, RUNS, BUDGET = 2.4, 3, 45.0
# A candidate must be this much better than the planned split to replace it.
GAIN = 0.97


class BusyError(Exception):
    """Other processes use the CPUs; the message says how much."""


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
    # Besides splits, two candidates share all CPUs: every thread each, and one thread each, which disturbs
    # least.
    for generator, decoder in [*apart, (most, most), (1, 1)]:
        wish = dataclasses.replace(engine, threads_generator=generator, threads_decoder=decoder)
        split = planned(adapt(profile, dataclasses.replace(config, engine=wish)))
        if split not in splits:
            splits.append(split)
    return splits


# Real-time factor, medians of each stage in ms, and other processes' share of the CPUs.
Figures = tuple[float, dict[str, float], float]
# Runs the engine with a configuration, for seconds of speech, so many times.
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
    # The queue ahead is made long, so that the generator is never held back and shows its own pace.
    free = dataclasses.replace(config, engine=dataclasses.replace(config.engine, buffer_seconds=60.0))
    results = []
    async with Trial(free) as trial:
        await trial.speak(seconds=2 * trial.engine.samples_per_frame / trial.engine.sample_rate)
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
