"""Measure the whole engine at the model's true sizes (see ``tools/bench --help``)."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from edgettsd import __version__
from edgettsd.config import Config, ConfigError, parse_cpus
from edgettsd.errors import SpeechError
from edgettsd.models.store import open_bundle
from edgettsd.tuning.trial import TEXT

from . import bench_machine as machine
from . import bench_run as run
from .families import named
from .progress import EXIT_OK, die

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "bench"

DESCRIPTION = """\
Measure the engine: each stage by frame, real-time factor, time to first audio, memory, and how far each stage
is from what the machine's memory and multipliers allow. Without --bundle a checkpoint of random weights at
the true sizes is made and converted once, in build/bench. Frames during which threads waited for a CPU, and
utterances during which other processes used the CPUs, are marked and kept out of the medians.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench; returns the exit status."""
    options = _parser().parse_args(arguments)
    bundle = options.bundle or _bundle(options)
    frames = options.min_frames
    try:
        with endless(bundle, frames) if frames else contextlib.nullcontext(bundle) as measured:
            config = _config(options, measured)
            result = asyncio.run(_measure(options, config, open_bundle(measured)))
    except (ConfigError, SpeechError, OSError, RuntimeError, ValueError) as error:
        die(str(error))
    for line in table(result):
        print(line)
    if options.json:
        machine.dump(result, options.json)
    return EXIT_OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tools/bench", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--bundle", type=Path, metavar="DIR", help="measure this bundle")
    add("--checkpoint", type=Path, metavar="DIR", help="convert this checkpoint instead of a random one")
    add("--size", default="0.6b", choices=("tiny", "0.6b", "1.7b"), help="size of the random checkpoint")
    add(
        "--precision",
        default="q4_0",
        help="of talker and predictor: q4_0, q4_K, q8_0, f16, f32, or TALKER,PREDICTOR",
    )
    add("--decoder", default="f32", help="precision of the decoder: f32, int8")
    add("--threads", type=_pair, default=(0, 0), metavar="G,D", help="threads of generator and decoder")
    add(
        "--cpus",
        type=_sets,
        default=((), ()),
        metavar="SET;SET",
        help='their CPUs, such as "0;1" or "0-1;0-1"',
    )
    add("--schedule", type=_schedule, default=("", ()), metavar="KIND:1,4,8", help="fixed, ramp or adaptive")
    add("--text", default=TEXT, help="what to say")
    add("--text-words", type=int, default=0, metavar="N", help="repeat the text's words up to so many")
    add("--seconds", type=float, default=8.0, help="longest speech of an utterance")
    add(
        "--min-frames",
        type=int,
        default=0,
        metavar="N",
        help="keep the model from ending before N frames, in one piece (with --context-size above that)",
    )
    add("--context-size", type=int, default=0, metavar="N", help="positions of the talker; 0: the default")
    add("--repeats", type=int, default=5, help="utterances")
    add(
        "--played",
        type=int,
        default=3,
        metavar="N",
        help="utterances in real time, for the time to first audio",
    )
    add("--context", type=int, default=300, help="positions at which the talker is measured alone; 0: not")
    add("--duration", type=float, default=0.0, metavar="S", help="then speak for so long, with temperatures")
    add("--vs", metavar="COMMAND", help="alternate with this command; {text} and {out} (a WAV) are replaced")
    add("--json", type=Path, metavar="FILE", help="write everything as JSON")
    return parser


def _pair(text: str) -> tuple[int, int]:
    numbers = text.split(",")
    if len(numbers) != 2 or not all(n.isdecimal() for n in numbers):
        raise argparse.ArgumentTypeError(f"{text!r}: two numbers expected, such as 1,1")
    return int(numbers[0]), int(numbers[1])


def _sets(text: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    try:
        first, second = (parse_cpus(part) for part in text.split(";"))
    except ValueError:
        raise argparse.ArgumentTypeError(f'{text!r}: two CPU sets expected, such as "0;1"') from None
    return first, second


def _schedule(text: str) -> tuple[str, tuple[int, ...]]:
    kind, _, chunks = text.partition(":")
    if kind not in ("fixed", "ramp", "adaptive") or not all(c.isdecimal() for c in chunks.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r}: KIND:CHUNKS expected, such as ramp:1,4,8")
    return kind, tuple(map(int, chunks.split(",")))


def _bundle(options: argparse.Namespace) -> Path:
    """The bundle with the wished precisions, made when it is not there yet."""
    from .convert import Options, convert
    from .make_checkpoint import main as make_checkpoint

    talker, _, predictor = options.precision.partition(",")
    predictor = predictor or talker
    checkpoint = options.checkpoint or BUILD / f"{options.size}-checkpoint"
    if not checkpoint.is_dir():
        BUILD.mkdir(parents=True, exist_ok=True)
        print(f"making a random {options.size} checkpoint in {checkpoint}", file=sys.stderr)
        if make_checkpoint(
            ["--size", options.size, "--task", "custom_voice", "--seed", "1", str(checkpoint)]
        ):
            die(f"no checkpoint in {checkpoint}")
    out: Path = BUILD / f"{checkpoint.name}-{talker}-{predictor}-{options.decoder}"
    if not (out / "manifest.json").is_file():
        print(f"converting it to {out}", file=sys.stderr)
        try:
            convert(checkpoint, out, Options(talker=talker, predictor=predictor, decoder=options.decoder))
        except (SpeechError, OSError) as error:
            die(str(error))
    return out


@contextlib.contextmanager
def endless(bundle: Path, frames: int) -> Iterator[Path]:
    """A copy of the bundle whose talker does not end before `frames` frames; removed at the end.

    By links where the file system has both folders, for a model's files are large.
    """
    BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{bundle.name}-{frames}-", dir=BUILD) as folder:
        out = Path(folder)
        for file in bundle.iterdir():
            if file.name == "manifest.json":
                continue
            try:
                os.link(file, out / file.name)
            except OSError:
                # With its time stamp, by which packed weights are found.
                shutil.copy2(file, out / file.name)
        manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
        manifest["sampling"]["min_new_tokens"] = frames
        (out / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        yield out


def _config(options: argparse.Namespace, bundle: Path) -> Config:
    engine: dict[str, Any] = {
        "threads_generator": options.threads[0],
        "threads_decoder": options.threads[1],
        "schedule": options.schedule[0],
        "chunks": list(options.schedule[1]),
    }
    if options.context_size:
        engine["context"] = options.context_size
    config = Config().updated({"model": {"path": str(bundle)}, "engine": engine}, "command line")
    first, second = options.cpus
    pinned = dataclasses.replace(config.engine, cpus_generator=first, cpus_decoder=second)
    return dataclasses.replace(config, engine=pinned)


async def _measure(options: argparse.Namespace, config: Config, bundle: Any) -> dict[str, Any]:
    words = options.text.split()
    text = " ".join((words * (options.text_words // len(words) + 1))[: options.text_words or len(words)])
    cpus = len(os.sched_getaffinity(0))
    threads = max(options.threads) or min(cpus, 2)
    facts = machine.facts(threads)
    cost = named(bundle.manifest.family).module("cost")
    result: dict[str, Any] = {
        "edgettsd": __version__,
        "machine": facts,
        "bundle": {
            "name": bundle.manifest.name,
            **cost.facts(bundle.manifest),
            "decoder": bundle.manifest.decoder.precision,
        },
        "options": {name: str(value) for name, value in vars(options).items() if value is not None},
        "floors_ms": cost.floors(bundle.manifest, facts, threads, context=50),
    }
    if options.vs:
        result["runs"] = await _alternate(options, config, text)
    else:
        result["engine"] = await run.engine(config, text, options.seconds, options.repeats)
        if options.played:
            result["played"] = await run.played(config, text, min(options.seconds, 4.0), options.played)
    if options.context:
        result["talker_at"] = {
            str(options.context): run.talker_at(bundle.files["talker.gguf"], options.context, threads)
        }
    if options.duration:
        result["soak"] = await run.soak(
            config, text, options.seconds, options.duration, lambda line: print(line, file=sys.stderr)
        )
    return result


async def _alternate(options: argparse.Namespace, config: Config, text: str) -> dict[str, Any]:
    """This engine and the other command in turn, so that both meet the same machine."""
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.repeats):
            ours += (await run.engine(config, text, options.seconds, 1))["runs"]
            theirs.append(run.command(text, options.vs, Path(folder) / "other.wav"))
    return {"edgettsd": ours, "other": theirs}


def table(result: dict[str, Any]) -> Iterator[str]:
    """The result as lines of text."""
    facts, bundle = result["machine"], result["bundle"]
    yield f"machine    {facts['cpu']}, {facts['cpus']} CPUs, load {facts['load']:.1f}"
    yield f"reads      {facts['read_gb_s']} GB/s by threads; multiplies {facts['sgemm_gflop_s']} GFLOP/s"
    parts = ", ".join(f"{part} {bundle[part]}" for part in ("talker", "predictor", "decoder"))
    yield f"model      {bundle['size']}, {parts}"
    if "runs" in result:
        for name, rows in result["runs"].items():
            yield f"{name:10} rtf {run.middle(rows, 'rtf')}  of {[r['rtf'] for r in rows]}"
        return
    engine, floors = result["engine"], result["floors_ms"]
    yield ""
    yield f"{'ms a step':16} {'median':>8} {'p95':>8} {'max':>8} {'disturbed':>9} {'floor':>8} {'times':>6}"
    steps = engine["steps"]
    rows = [
        (name, steps[name], floors.get(name))
        for name in ("frame", "talker", "predictor", "sampling", "loop", "prefill")
        if name in steps
    ]
    rows += [
        (f"decoder {size}", entry, floors["decoder"] * int(size))
        for size, entry in steps.get("decoder", {}).items()
    ]
    for name, entry, floor in rows:
        share = f"{entry['disturbed']:9.0%}" if "disturbed" in entry else " " * 9
        least = f"{floor:8.1f} {entry['median'] / floor:6.2f}" if floor else ""
        times = " ".join(f"{entry[key]:8.2f}" for key in ("median", "p95", "max"))
        yield f"{name:16} {times} {share} {least}".rstrip()
    yield f"sub-steps        {steps.get('substeps')}"
    for context, entry in result.get("talker_at", {}).items():
        yield f"talker at {context:6} {entry['median']:8.2f} {entry['p95']:8.2f} {entry['max']:8.2f}"
    spoken = engine["runs"]
    yield ""
    disturbed = sum(r["disturbed"] for r in spoken)
    yield f"utterances       {len(spoken)}, of them disturbed by other processes: {disturbed}"
    for name in (
        "rtf",
        "rtf_streamed",
        "first_chunk_ms",
        "uninterrupted_ms",
        "gap_p95_ms",
        "cpu_s_per_audio_s",
    ):
        yield f"{name:16} {run.middle(spoken, name)}"
    heard = result.get("played", [])
    if heard:
        dry = sum(r["underruns"] for r in heard)
        yield f"in real time     ttfa_ms {run.middle(heard, 'ttfa_ms')}  underruns {dry}"
        yield f"first audio      {run.middles(heard, 'first_audio')}"
    yield f"wall time        {run.middles(spoken, 'attribution')}"
    yield f"frame, quarters  {engine['frame_by_quarter']}"
    yield f"start            {engine['start_s']} s"
    yield f"memory           {engine['memory_mb']['after']} MB"


if __name__ == "__main__":
    sys.exit(main())
