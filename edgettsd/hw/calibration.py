"""What was measured of this model on this machine: kept in the cache folder, read by the next start.

A calibration is found by a fingerprint of hardware, model and version. `edgettsd.tuning.calibrate` makes it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cython_kernels import _leftovers
from cython_kernels._libs import library_versions
from edgettsd import __version__, limits
from edgettsd.config import Config
from edgettsd.hw.isa import own_isa
from edgettsd.hw.profile import Profile
from edgettsd.hw.threads import PROCESS_CPUS

log = logging.getLogger(__name__)

FILE = "calibration.json"
FORMAT = 1
# How many calibrations are kept, one for each model and version that was used lately.
KEEP = 8


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
