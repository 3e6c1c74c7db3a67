"""What the bench measures: the engine, the talker at a given context, and another command."""

from __future__ import annotations

import dataclasses
import resource
import shlex
import statistics
import subprocess
import time
import wave
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cython_kernels import pipe as p
from cython_kernels.llama import LlamaTalker
from edgettsd.config import Config
from edgettsd.metrics import quantiles
from edgettsd.tuning.trial import Trial, Utterance, memory_mb

from .bench_machine import sensors

FRAME = 0.08
# Others taking more than this share of the CPUs disturb an utterance.
DISTURBED = 0.05


def timeline(records: np.ndarray[Any, Any], accepted_ns: int, rate: int, per_frame: int) -> dict[str, float]:
    """When audio was ready: {} without chunks.

    rtf_streamed: time from the first chunk to the last over the audio after the first one. gap_p95_ms:
    between chunks. uninterrupted_ms: the earliest start, after Speak, from which playing never runs dry.
    """
    if len(records) == 0:
        return {}
    ready = (records["t_ns"] + records["wall_ns"] - accepted_ns) / 1e6
    audio = records["n"] * per_frame / rate * 1e3
    before = np.concatenate([[0.0], np.cumsum(audio)[:-1]])
    result = {
        "first_chunk_ms": round(float(ready[0]), 1),
        "uninterrupted_ms": round(float((ready - before).max()), 1),
    }
    if len(ready) > 1:
        result["rtf_streamed"] = round(float((ready[-1] - ready[0]) / audio[1:].sum()), 4)
        result["gap_p95_ms"] = round(float(np.quantile(np.diff(ready), 0.95)), 1)
    return result


def row(trial: Trial, spoken: Utterance, accepted_ns: int) -> dict[str, Any]:
    """One utterance's figures."""
    steps = trial.engine.steps
    chunks = steps.records(p.STEP_DECODE, [spoken.generation])
    spent = spoken.attribution
    return {
        "frames": spoken.frames,
        "reason": spoken.reason,
        "audio_s": spoken.audio,
        "wall_s": round(spoken.wall, 3),
        "rtf": round(spoken.wall / spoken.audio, 4) if spoken.audio else None,
        "cpu_s_per_audio_s": round(spoken.cpu / spoken.audio, 3) if spoken.audio else None,
        "foreign": round(spoken.foreign, 3),
        "disturbed": spoken.foreign > DISTURBED,
        "underruns": spoken.underruns,
        "first_audio": spoken.first_audio,
        "attribution": spent,
        **timeline(chunks, accepted_ns, trial.engine.sample_rate, trial.engine.samples_per_frame),
    }


async def engine(config: Config, text: str, seconds: float, repeats: int) -> dict[str, Any]:
    """The engine at its own pace: one utterance to warm up, then `repeats`."""
    free = dataclasses.replace(config, engine=dataclasses.replace(config.engine, buffer_seconds=60.0))
    async with Trial(free) as trial:
        memory = {"loaded": memory_mb()}
        await trial.speak(text, seconds=3 * FRAME)
        rows, generations = [], []
        for number in range(repeats):
            accepted = time.monotonic_ns()
            spoken = await trial.speak(text, seconds=seconds, seed=number + 1)
            rows.append(row(trial, spoken, accepted))
            generations.append(spoken.generation)
        memory["after"] = memory_mb()
        steps = trial.engine.steps.report(generations)
        longest = generations[int(np.argmax([row["frames"] for row in rows]))]
        return {
            "start_s": round(trial.start_seconds, 3),
            "memory_mb": memory,
            "steps": steps,
            "frame_by_quarter": quarters(trial.engine.steps.records(p.STEP_FRAME, [longest])),
            "runs": rows,
        }


def quarters(records: np.ndarray[Any, Any]) -> list[float]:
    """Median ms of a frame in each quarter of an utterance's frame records: what its length costs."""
    part, n = records["part_ns"], int(records["n"].max()) if len(records) else 0
    substeps = part[:, p.STEP_SUBSTEPS : p.STEP_SUBSTEPS + n].sum(axis=1)
    busy = (part[:, p.STEP_TALKER] + substeps + part[:, p.STEP_SAMPLE]) / 1e6
    return [round(float(np.median(share)), 2) for share in np.array_split(busy, 4) if len(share)]


async def played(config: Config, text: str, seconds: float, repeats: int) -> list[dict[str, Any]]:
    """Utterances into a sink that plays in real time, like a device; the first one teaches the rate."""
    async with Trial(config, speed=1.0) as trial:
        await trial.speak(text, seconds=seconds)
        rows = []
        for number in range(repeats):
            accepted = time.monotonic_ns()
            spoken = await trial.speak(text, seconds=seconds, seed=number + 1)
            entry = row(trial, spoken, accepted) | {"ttfa_ms": round(spoken.first * 1000, 1)}
            rows.append(entry)
        return rows


async def soak(config: Config, text: str, seconds: float, total: float, note: Callable[[str], None]) -> Any:
    """Utterance after utterance for `total` seconds, with temperature and clock."""
    async with Trial(config) as trial:
        await trial.speak(text, seconds=3 * FRAME)
        began, rows = time.monotonic(), list[dict[str, Any]]()
        while time.monotonic() - began < total:
            accepted = time.monotonic_ns()
            entry = row(trial, await trial.speak(text, seconds=seconds, seed=len(rows) + 1), accepted)
            entry |= {"at_s": round(time.monotonic() - began, 1), "rss_mb": memory_mb()["all"], **sensors()}
            rows.append(entry)
            note(f"{entry['at_s']:7.1f} s  rtf {entry['rtf']}  {entry['rss_mb']} MB  {sensors()}")
    return rows


def talker_at(file: Path, context: int, threads: int, steps: int = 20) -> dict[str, float]:
    """Talker alone with `context` positions filled: quantiles of a step."""
    talker = LlamaTalker(file, max_context=context + steps, threads=threads)
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((context, talker.hidden_size)).astype(np.float32) * 0.02
    talker.feed(rows)
    times = []
    for _ in range(steps):
        began = time.perf_counter_ns()
        talker.feed(rows[:1])
        times.append(time.perf_counter_ns() - began)
    return quantiles(times)


def command(text: str, template: str, out: Path) -> dict[str, Any]:
    """Run another engine's command line, whole process; {text} and {out} (a WAV to write) are replaced."""
    words = [word.replace("{text}", text).replace("{out}", str(out)) for word in shlex.split(template)]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    with wave.open(str(out)) as file:
        audio = file.getnframes() / file.getframerate()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "audio_s": round(audio, 3),
        "wall_s": round(wall, 3),
        "rtf": round(wall / audio, 4),
        "cpu_s": round(cpu, 2),
    }


def middle(rows: Iterable[dict[str, Any]], name: str) -> float | None:
    """Median of a figure over undisturbed rows, over all when every row is disturbed."""
    every = [r for r in rows if r.get(name) is not None]
    calm = [r for r in every if not r.get("disturbed")] or every
    return round(statistics.median(r[name] for r in calm), 4) if calm else None


def middles(rows: Sequence[dict[str, Any]], key: str) -> dict[str, float]:
    """Medians of the entries of a nested table."""
    tables = [r[key] for r in rows if r.get(key) and not r.get("disturbed")] or [
        r[key] for r in rows if r.get(key)
    ]
    names = tables[0].keys() if tables else ()
    return {name: round(statistics.median(t[name] for t in tables), 2) for name in names}
