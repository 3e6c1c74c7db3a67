"""Compare a bundle with the official model's reference files (see ``tools/parity --help``).

The measurements are functions over `Parts`, so that the tests assert on the same figures that are printed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgettsd.families.plan import LoopSampling, talker_first
from edgettsd.families.qwen3_tts import Prompt
from edgettsd_tools.families.qwen3_tts.parity_parts import (
    CLOSED_DB,
    CLOSED_FLOOR,
    HALF_LIMIT,
    HIDDEN_LIMIT,
    PROMPT_LIMIT,
    TOP1_FLOOR,
    Floats,
    Parts,
    Result,
    decoder_limit,
    half_step,
    open_parts,
    snr_db,
)

Case = dict[str, Any]


def read_meta(oracle: Path) -> dict[str, Any]:
    """meta.json of a reference folder; raises FileNotFoundError."""
    meta: dict[str, Any] = json.loads((oracle / "meta.json").read_text(encoding="utf-8"))
    return meta


def cases(oracle: Path) -> Iterator[tuple[str, Case, Case]]:
    """(name, settings, arrays) of every case of a reference folder."""
    for name, settings in read_meta(oracle)["cases"].items():
        with np.load(oracle / f"{name}.npz") as arrays:
            yield name, settings, dict(arrays)


def build_prompt(parts: Parts, settings: Case, reference: Case) -> Prompt:
    """The product's prompt for a case."""
    return parts.builder(reference.get("speaker"), reference.get("ids")).build(
        settings["text"],
        voice=settings["voice"],
        language=settings["language"],
        instruct=settings["instruct"],
        layout=settings["layout"],
    )


def compare_tokens(parts: Parts, oracle: Path) -> Iterator[Result]:
    """Ids of ordinary texts."""
    file = oracle / "tokens.json"
    if not file.is_file():
        return
    references = json.loads(file.read_text(encoding="utf-8"))
    wrong = [r["text"] for r in references if parts.tokenizer.speech(r["text"]) != r["ids"]]
    figure = f"{len(references) - len(wrong)}/{len(references)} texts"
    yield Result("token ids", "texts", figure + "".join(f" {text!r}" for text in wrong[:3]), "all", not wrong)


def compare_prompt(parts: Parts, name: str, settings: Case, reference: Case) -> Iterator[Result]:
    """Ids and rows of one case's prompt."""
    prompt = build_prompt(parts, settings, reference)
    ids = [*reference["instruct_ids"].tolist(), *reference["ids"].tolist()]
    found = parts.tokenizer.speech(settings["text"]) if parts.timed else list(prompt.ids)
    yield Result("token ids", name, f"{len(ids)} ids", "equal", found == ids)
    half, worst = parts.manifest.embeddings_dtype == "f16", 0.0
    for field in ("prompt", "trailing", "pad_row"):
        ours, theirs = getattr(prompt, field), reference[field]
        error = np.abs(ours - theirs) if ours.shape == theirs.shape else np.full(1, np.inf)
        if half:
            error = error / half_step(theirs, summed=field == "prompt")
        worst = max(worst, float(error.max()))
    limit = HALF_LIMIT if half else PROMPT_LIMIT
    figure, unit = (f"{worst:.2f}", " f16 roundings") if half else (f"{worst:.1e}", "")
    yield Result("prompt rows", name, figure + unit, f"<= {limit:g}", worst <= limit)


@dataclass(frozen=True, slots=True)
class Forced:
    """Teacher forcing over some steps: largest errors, and how often the official code was the most likely.

    `hits` of `steps` for codebook 0, `sub_hits` of `sub_steps` for the others; `hidden_error` is relative to
    the largest hidden value.
    """

    hidden_error: float
    logit_error: float
    hits: int
    steps: int
    sub_hits: int
    sub_steps: int


def teacher_forced(parts: Parts, reference: Case) -> Forced:
    """Feed the official rows and codes; compare what talker and predictor say at every step."""
    codes, hidden = reference["codes"], reference["hidden"]
    logit_at = {
        int(step): row for step, row in zip(reference["logit_steps"], reference["logits"], strict=True)
    }
    talker, predictor = parts.talker, parts.predictor
    talker.reset()
    talker.feed(reference["prompt"])
    hidden_error = logit_error = 0.0
    hits = sub_hits = 0
    for step in range(len(hidden)):
        state, logits = talker.hidden(), talker.logits()
        hidden_error = max(hidden_error, float(np.abs(state - hidden[step]).max()))
        if step in logit_at:
            logit_error = max(logit_error, float(np.abs(logits - logit_at[step]).max()))
        hits += int(logits.argmax()) == int(reference["top1"][step])
        if step == len(codes):
            break
        frame = codes[step]
        out = predictor.begin(hidden[step], parts.tables[0][frame[0]].astype(np.float32))
        for group in range(1, len(frame)):
            sub_hits += int(out.argmax()) == int(frame[group])
            if group < len(frame) - 1:
                out = predictor.next(group, parts.tables[group][frame[group]].astype(np.float32))
        row = parts.frame_row(frame, step, reference["trailing"], reference["pad_row"])
        talker.feed(row[None, :])
    scale = float(np.abs(hidden).max())
    sub_steps = len(codes) * (codes.shape[1] - 1)
    return Forced(hidden_error / scale, logit_error, hits, len(hidden), sub_hits, sub_steps)


def compare_hidden(parts: Parts, name: str, forced: Forced) -> Result:
    """One case's hidden states against the limit of the talker's precision."""
    precision = parts.manifest.talker.precision
    limit, error = HIDDEN_LIMIT[precision], forced.hidden_error
    return Result(f"hidden {precision}", name, f"{error:.1e}", f"<= {limit:g}", error <= limit)


def compare_top1(parts: Parts, forced: Sequence[Forced]) -> Iterator[Result]:
    """Agreement over all cases together against the floors of the bundle's precisions."""
    for what, precision, hits, steps in (
        ("top-1", parts.manifest.talker.precision, sum(f.hits for f in forced), sum(f.steps for f in forced)),
        (
            "sub top-1",
            parts.manifest.predictor.precision,
            sum(f.sub_hits for f in forced),
            sum(f.sub_steps for f in forced),
        ),
    ):
        share, floor = hits / max(1, steps), TOP1_FLOOR[precision]
        figure = f"{share:.3f} of {steps} steps"
        yield Result(f"{what} {precision}", "all cases", figure, f">= {floor:g}", share >= floor)


def closed_loop(parts: Parts, prompt: Prompt, frames: int, penalty: float) -> npt.NDArray[np.int16]:
    """Greedy codes [T, groups] of the product's own frame loop, T at most `frames`."""
    from cython_kernels.frame_loop import Generator
    from cython_kernels.pipe import Pipe

    # Nobody reads this pipe: it must hold the whole utterance.
    pipe = Pipe(
        parts.manifest.code_groups,
        parts.manifest.samples_per_frame,
        codes_capacity=frames + 16,
        backpressure_seconds=3600.0,
    )
    greedy = LoopSampling(do_sample=False)
    plan = talker_first(parts.manifest.code_groups, parts.sampling.eos)
    out = Generator(pipe, parts.talker, parts.predictor, parts.tables, plan).run(
        pipe.next_generation(),
        prompt.prompt,
        prompt.trailing,
        prompt.pad_row,
        samplers=(LoopSampling(do_sample=False, repetition_penalty=penalty), greedy),
        banned=(parts.sampling.banned(parts.manifest.talker.vocab),),
        min_frames=parts.sampling.min_new_tokens,
        max_frames=frames,
        collect=frames,
    )
    if out["error"] != "ok":
        raise RuntimeError(f"the frame loop failed: {out['error']}")
    codes: npt.NDArray[np.int16] = out["codes"]
    return codes


@dataclass(frozen=True, slots=True)
class Closed:
    """A case's closed loop beside the official one: `equal` of `codes`, the longer one's, are the same.

    `leading` frames are equal before the first other one, of `frames`; ours are `made` frames; `sound_db` is
    the signal-to-noise ratio of the rows that each frame's codes add up to; `first` tells where they differ.
    """

    equal: int
    codes: int
    leading: int
    frames: int
    groups: int
    made: int
    sound_db: float
    first: str


def closed(parts: Parts, settings: Case, reference: Case) -> Closed:
    """Run a case's closed loop."""
    codes = reference["codes"]
    ours = closed_loop(
        parts, build_prompt(parts, settings, reference), settings["frames"], settings["repetition_penalty"]
    )
    shared = min(len(ours), len(codes))
    equal = ours[:shared] == codes[:shared]
    same = equal.all(axis=1)
    leading, first = shared if same.all() else int(same.argmin()), ""
    if leading < shared:
        book = int((~equal[leading]).argmax())
        first = f"; first difference frame {leading} codebook {book}"
    sounds = [
        np.sum([table[frames[:shared, g]].astype(np.float32) for g, table in enumerate(parts.tables)], axis=0)
        for frames in (codes, ours)
    ]
    length = max(len(ours), len(codes))
    return Closed(
        int(equal.sum()),
        length * codes.shape[1],
        leading,
        len(codes),
        codes.shape[1],
        len(ours),
        snr_db(*sounds),
        first,
    )


def compare_closed(parts: Parts, name: str, found: Closed) -> Result:
    """All codes of the closed loop, at f32; elsewhere the number of equal leading frames is only told.

    A quantised voice that follows its text has CLOSED_DB of the same sound by codes that may be others.
    """
    if parts.timed and not parts.exact:
        figure = f"{found.sound_db:.1f} dB, {found.equal / found.codes:.3f} of the codes equal"
        return Result("closed loop", name, figure, f">= {CLOSED_DB:g} dB", found.sound_db >= CLOSED_DB)
    equal = found.made == found.frames and found.leading == found.frames
    figure = f"{found.leading}/{found.frames} frames, {found.groups} codebooks{found.first}"
    return Result("closed loop", name, figure, "all" if parts.exact else "told", equal or not parts.exact)


def compare_closed_codes(found: Sequence[Closed]) -> Result:
    """Equal codes of a quantised voice that follows its text, over all cases together."""
    share = sum(f.equal for f in found) / max(1, sum(f.codes for f in found))
    figure = f"{share:.3f} of {sum(f.codes for f in found)} codes"
    return Result("closed loop", "all cases", figure, f">= {CLOSED_FLOOR:g}", share >= CLOSED_FLOOR)


def split(frames: int, sizes: Sequence[int]) -> list[int]:
    """A step of `frames` as chunks that the decoder has, largest first: 25 with 1, 4, 8 is 8 8 8 1."""
    out: list[int] = []
    while frames:
        size = max(s for s in sizes if s <= frames)
        out.append(size)
        frames -= size
    return out


def schedules(frames: int, sizes: Sequence[int]) -> dict[str, list[int]]:
    """Chunk schedules by name, each summing to `frames`."""
    steps: dict[str, list[int]] = {"ones": [1] * frames, "1 then 25": [1, 25, 25, 25, 25], "4,4,8,16,25": []}
    steps["4,4,8,16,25"] = [4, 4, 8, 16, 25, 25, 25]
    for seed in range(3):
        rng = np.random.default_rng(seed)
        steps[f"random {seed}"] = rng.integers(1, 26, frames).tolist()
    out: dict[str, list[int]] = {}
    for name, wanted in steps.items():
        chunks: list[int] = []
        for step in [*wanted, frames]:
            chunks += split(min(step, frames - sum(chunks)), sizes)
        out[name] = chunks
    return out


def decode(parts: Parts, codes: npt.NDArray[Any], chunks: Iterable[int]) -> Floats:
    """PCM [T * samples_per_frame] of codes [T, groups] decoded chunk by chunk from the start of a stream."""
    parts.decoder.reset()
    pieces, start = [], 0
    for size in chunks:
        pieces.append(parts.decoder.decode(np.ascontiguousarray(codes[start : start + size], np.int32)))
        start += size
    return np.concatenate(pieces)


def compare_decoder(parts: Parts, oracle: Path) -> Iterator[Result]:
    """Chunked decoding against the official full forward."""
    file = oracle / "decoder.npz"
    if not file.is_file():
        return
    with np.load(file) as arrays:
        codes, kept, pcm = arrays["codes"], arrays["kept"], arrays["pcm"]
    samples, precision = parts.manifest.samples_per_frame, parts.manifest.decoder.precision
    limit = decoder_limit(precision, read_meta(oracle).get("official_f32_snr_db"))
    for name, chunks in schedules(len(codes), parts.decoder.sizes).items():
        ours = decode(parts, codes, chunks)
        exact_length = len(ours) == len(codes) * samples
        db = snr_db(pcm, ours.reshape(-1, samples)[kept].reshape(-1)) if exact_length else -np.inf
        figure = f"{db:.1f} dB, {len(ours)} samples"
        yield Result(f"decoder {precision}", name, figure, f">= {limit:g} dB", exact_length and db >= limit)


def compare(parts: Parts, oracle: Path) -> Iterator[Result]:
    """Every comparison that the reference folder allows."""
    meta = read_meta(oracle)
    forced: list[Forced] = []
    loops: list[Closed] = []
    yield from compare_tokens(parts, oracle)
    for name, settings, reference in cases(oracle):
        settings = settings | {"frames": meta["frames"]}
        yield from compare_prompt(parts, name, settings, reference)
        forced.append(teacher_forced(parts, reference))
        yield compare_hidden(parts, name, forced[-1])
        loops.append(closed(parts, settings, reference))
        yield compare_closed(parts, name, loops[-1])
    if forced and parts.timed and not parts.exact:
        yield compare_closed_codes(loops)
    if forced:
        yield from compare_top1(parts, forced)
    yield from compare_decoder(parts, oracle)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; returns 1 when a comparison misses its limit."""
    parser = argparse.ArgumentParser(prog="tools/parity", description=__doc__.splitlines()[0])
    parser.add_argument("bundle", type=Path, help="bundle folder")
    parser.add_argument(
        "oracle", type=Path, help="folder written by tools/oracle for the bundle's checkpoint"
    )
    parser.add_argument("--threads", type=int, default=1, help="compute threads (default 1)")
    args = parser.parse_args(argv)
    if not (args.oracle / "meta.json").is_file():
        parser.error(f"{args.oracle / 'meta.json'} does not exist: give a folder written by tools/oracle")
    missed = 0
    print(f"{'':4} {'what':16} {'case':28} {'figure':44} limit")
    for result in compare(open_parts(args.bundle, args.threads), args.oracle):
        mark = "ok" if result.ok else "MISS"
        print(f"{mark:4} {result.what:16} {result.case:28} {result.figure:44} {result.limit}", flush=True)
        missed += not result.ok
    print(f"{missed} comparisons missed their limit" if missed else "every comparison is within its limit")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
