"""What to expect on a board: time a frame of speech needs, from bytes to read and operations to compute.

A projection, not a measurement. The model is small on purpose:

- talker and code predictor read all their weights for every step, so memory bandwidth or 8-bit arithmetic,
  whichever is slower, sets their pace; the talker has a share of small operations on top;
- the decoder is arithmetic: its operations over the cores' peak times an efficiency;
- generator and decoder work at the same time on the CPU sets that edgettsd chooses for the board.

Its few constants come from one machine's measurements (REFERENCE), which it must reproduce; what it assumes
of boards is in BOARDS and below, as a range.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgettsd.config import Config
from edgettsd.hw import Cpu, Profile, adapt
from edgettsd.hw.speed import (
    DECODER_GFLOP,
    DECODER_TOOM_GFLOP,
    DIRECT_EFFICIENCY,
    TOOM_EFFICIENCY,
    flop_per_cycle,
)
from edgettsd_tools.families import DEFAULT

# Projections are of this family: MEASURED are times of its models.
COST = DEFAULT.module("cost")
FRAME_MS: float = COST.FRAME_MS
# Bytes of a weight in the block formats of ggml.
BYTES = {"q4_0": 18 / 32, "q4_K": 18 / 32, "q8_0": 34 / 32, "f16": 2.0, "f32": 4.0}
# Positions in the talker's memory in the middle of a sentence, and bytes of each number there.
POSITIONS, KV_BYTES = 300, 2
# Share of the peak memory bandwidth that cores can draw, from bad to good memory controllers (assumed).
SHARES = (0.4, 0.7)
# Time of the int8 decoder over the exact one, with and without 8-bit dot products (assumed; REFERENCE: 0.41).
INT8_DOT, INT8_PLAIN = 0.5, 0.75


@dataclass(frozen=True, slots=True)
class Work:
    """One frame's work. Bytes are read once; MACs are multiplications with weights."""

    talker_bytes: float
    talker_macs: float
    predictor_bytes: float
    predictor_macs: float


@dataclass(frozen=True, slots=True)
class Board:
    """A board and what its makers publish. `bandwidth` is the memory's peak in GB/s."""

    name: str
    kind: str
    cores: int
    mhz: int
    bandwidth: float
    isa: tuple[str, ...]
    source: str
    # Cores of a little cluster in front of the big one: kind and number.
    little: tuple[str, int] = ("", 0)
    cluster: int = 4


@dataclass(frozen=True, slots=True)
class Core:
    """What a core can do (assumed): GB/s that one core draws, 8-bit MACs a cycle in ggml's kernels."""

    bandwidth: float
    macs: float


CORES = {
    "cortex-a53": Core(2.0, 2.5),
    "cortex-a72": Core(3.0, 4.0),
    "cortex-a76": Core(8.0, 12.0),
    "cortex-a78ae": Core(9.0, 12.0),
    "zen4": Core(15.5, 40.0),
}
_ARMV8 = ("neon",)
_ARMV82 = ("neon", "fp16", "dotprod")
BOARDS = (
    Board("Raspberry Pi 4", "cortex-a72", 4, 1800, 12.8, _ARMV8, "BCM2711, LPDDR4-3200 x 32 bit"),
    Board("Raspberry Pi 5", "cortex-a76", 4, 2400, 17.1, _ARMV82, "BCM2712, LPDDR4X-4267 x 32 bit"),
    Board(
        "RK3588", "cortex-a76", 4, 2400, 33.8, _ARMV82, "LPDDR4X-4224 x 64 bit", ("cortex-a55", 4), cluster=2
    ),
    Board("Orin Nano 8 GB", "cortex-a78ae", 6, 1510, 68.0, _ARMV82, "module data sheet, 128 bit LPDDR5"),
    Board("Orin NX 16 GB", "cortex-a78ae", 8, 1984, 102.4, _ARMV82, "module data sheet, 128 bit LPDDR5"),
    Board("AGX Orin 64 GB", "cortex-a78ae", 12, 2201, 204.8, _ARMV82, "module data sheet, 256 bit LPDDR5"),
)
# Two cores of a Zen 4 server: 190 GFLOP/s of sgemm, about 31 GB/s of reading.
REFERENCE = Board("x86-64, 2 x Zen 4", "zen4", 2, 2970, 31.0, ("fma", "avx512"), "measured")
# Attention over the positions, norms, activations and waiting for each other in a talker step on REFERENCE,
# in ms with two threads; taken to grow as a core's peak falls.
SMALL_OPERATIONS_MS = 6.4

# Measured there with random weights, ms a frame: (stage, precision) -> value.
MEASURED = {
    ("talker", "q4_0"): 15.6,
    ("talker", "q8_0"): 23.5,
    ("predictor", "q4_0"): 21.0,
    ("predictor", "q8_0"): 43.0,
    ("decoder", "direct"): 27.5,
    ("decoder", "exact"): 18.5,
}


def work(talker: Mapping[str, int], predictor: Mapping[str, int], precision: tuple[str, str]) -> Work:
    """The work of a model whose sizes have the names of a bundle's manifest; `precision` of both parts."""
    layer, head = _matrices(talker), talker["vocab"] * talker["hidden"]
    macs = talker["layers"] * layer + head
    memory = POSITIONS * talker["layers"] * 2 * talker["kv_heads"] * talker["head_dim"] * KV_BYTES
    steps = predictor["code_groups"] - 1
    fine = steps * (predictor["layers"] * _matrices(predictor) + predictor["vocab"] * predictor["hidden"])
    return Work(macs * BYTES[precision[0]] + memory, macs, fine * BYTES[precision[1]], fine)


def _matrices(part: Mapping[str, int]) -> int:
    """Weights of one layer's matrices."""
    hidden, head_dim = part["hidden"], part["head_dim"]
    attention = hidden * head_dim * (2 * part["heads"] + 2 * part["kv_heads"])
    return attention + 3 * hidden * part["ffn"]


def of_size(size: str, precision: str) -> Work:
    """The work of an official size of the family, such as "0.6b"."""
    talker, predictor = COST.official(size)
    return work(talker, predictor, (precision, precision))


def of_bundle(folder: Path) -> Work:
    """The work of a bundle, from its manifest."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    talker, predictor = manifest["talker"], manifest["predictor"]
    groups = {"code_groups": manifest["code_groups"]}
    return work(talker, predictor | groups, (talker["precision"], predictor["precision"]))


def profile(board: Board) -> Profile:
    """The board as edgettsd sees it, for its choice of CPU sets."""
    kind, count = board.little
    cpus = [Cpu(i, i, 0, 400, 1800, kind=kind) for i in range(count)]
    for i in range(board.cores):
        first = count + i // board.cluster * board.cluster
        cpus.append(Cpu(count + i, count + i, first, 1024, board.mhz, kind=board.kind))
    ids = tuple(cpu.id for cpu in cpus)
    machine: Any = "x86" if "fma" in board.isa else "arm64-biglittle" if count else "arm64"
    return Profile(machine, "", board.name, board.isa, tuple(cpus), ids, ram_mb=8192)


@dataclass(frozen=True, slots=True)
class Projection:
    """ms of one frame of 80 ms, and how many cores compute."""

    talker: float
    predictor: float
    exact: float
    int8: float
    cores: tuple[int, int]

    @property
    def generator(self) -> float:
        """Talker and predictor follow each other."""
        return self.talker + self.predictor

    def factor(self, decoder: float) -> float:
        """Time over real time: the slower of the two stages."""
        return max(self.generator, decoder) / FRAME_MS


def project(board: Board, what: Work, share: float, cores: tuple[int, int] | None = None) -> Projection:
    """Project for a share of the peak bandwidth; `cores` of generator and decoder, or as adapt chooses."""
    if cores is None:
        plan = adapt(profile(board), Config())
        cores = plan.threads_generator, plan.threads_decoder
    core = CORES[board.kind]
    bandwidth = 1e9 * min(share * board.bandwidth, cores[0] * core.bandwidth)
    macs = cores[0] * board.mhz * 1e6 * core.macs
    peak = board.mhz / 1000 * flop_per_cycle(board.kind, board.isa)
    reference = REFERENCE.mhz / 1000 * flop_per_cycle(REFERENCE.kind, REFERENCE.isa)
    small = SMALL_OPERATIONS_MS * (reference / peak) * (2 / cores[0])
    exact = DECODER_TOOM_GFLOP / (peak * cores[1] * TOOM_EFFICIENCY) * 1000
    fast = bool({"dotprod", "avx512-vnni"} & set(board.isa))
    return Projection(
        1000 * max(what.talker_bytes / bandwidth, what.talker_macs / macs) + small,
        1000 * max(what.predictor_bytes / bandwidth, what.predictor_macs / macs),
        exact,
        exact * (INT8_DOT if fast else INT8_PLAIN),
        cores,
    )


def reference_errors() -> dict[tuple[str, str], tuple[float, float]]:
    """(stage, variant) -> (projected, measured) in ms on the machine that was measured."""
    found = {}
    for precision in ("q4_0", "q8_0"):
        projected = project(REFERENCE, of_size("0.6b", precision), 1.0, (2, 2))
        found["talker", precision] = projected.talker
        found["predictor", precision] = projected.predictor
        found["decoder", "exact"] = projected.exact
    peak = REFERENCE.cores * REFERENCE.mhz / 1000 * flop_per_cycle(REFERENCE.kind, REFERENCE.isa)
    found["decoder", "direct"] = DECODER_GFLOP / (peak * DIRECT_EFFICIENCY) * 1000
    return {key: (found[key], MEASURED[key]) for key in MEASURED}


def table(works: Mapping[str, Work]) -> list[str]:
    """The projections as a Markdown table; ranges are from good to bad memory."""
    lines = [
        "| board | cores: generator + decoder | weights | generator, ms | decoder f32 / int8, ms "
        "| time over real time, f32 / int8 |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for board in BOARDS:
        for name, what in works.items():
            bad, good = (project(board, what, share) for share in SHARES)
            lines.append(
                f"| {board.name} | {good.cores[0]} + {good.cores[1]} | {name} "
                f"| {_range(good.generator, bad.generator, 0)} | {good.exact:.0f} / {good.int8:.0f} "
                f"| {_range(good.factor(good.exact), bad.factor(bad.exact), 2)} / "
                f"{_range(good.factor(good.int8), bad.factor(bad.int8), 2)} |"
            )
    return lines


def check_table() -> list[str]:
    """The model against the measurements, as a Markdown table."""
    lines = ["| stage | measured, ms | model, ms |", "| --- | --- | --- |"]
    for (stage, variant), (projected, measured) in reference_errors().items():
        lines.append(f"| {stage} {variant} | {measured:g} | {projected:.1f} |")
    return lines


def work_table(works: Mapping[str, Work]) -> list[str]:
    """Bytes and multiplications of a frame, as a Markdown table."""
    lines = [
        "| weights | talker, MB | predictor, MB | weights' multiplications, M |",
        "| --- | --- | --- | --- |",
    ]
    for name, what in works.items():
        macs = (what.talker_macs + what.predictor_macs) / 1e6
        lines.append(
            f"| {name} | {what.talker_bytes / 1e6:.0f} | {what.predictor_bytes / 1e6:.0f} | {macs:.0f} |"
        )
    return lines


def _range(low: float, high: float, digits: int) -> str:
    a, b = f"{low:.{digits}f}", f"{high:.{digits}f}"
    return a if a == b else f"{a} to {b}"


def default_works() -> dict[str, Work]:
    """The sizes and precisions that the board guide tells of."""
    return {
        f"{size} {precision}": of_size(size, precision)
        for size, precision in (("0.6b", "q4_0"), ("0.6b", "q8_0"), ("1.7b", "q4_0"))
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables of docs/boards.md, for the official sizes or for a bundle."""
    parser = argparse.ArgumentParser(prog="tools/boards", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--bundle", type=Path, metavar="DIR", help="project for this bundle")
    options = parser.parse_args(arguments)
    works = default_works()
    if options.bundle is not None:
        try:
            works = {options.bundle.name: of_bundle(options.bundle)}
        except (OSError, ValueError, KeyError, TypeError) as error:
            parser.error(f"{options.bundle}/manifest.json: {type(error).__name__}: {error}")
    for lines in (work_table(works), check_table(), table(works)):
        print("\n".join(lines), end="\n\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
