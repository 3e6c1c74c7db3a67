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

from edgettsd.models.qwen3_tts import LoopSampling, Prompt, PromptBuilder, Sampling
from edgettsd.models.store import Bundle, open_bundle

Floats = npt.NDArray[np.float32]
Case = dict[str, Any]

PROMPT_LIMIT = 1e-5
# Positions of the talker: those of the daemon, since the way to attend depends on them.
CONTEXT = 512
DECODER_DB = {"f32": 100.0, "f16": 40.0, "int8": 15.0, "w8": 12.0}
# Largest error of a hidden state, relative to the largest hidden value, under teacher forcing.
HIDDEN_LIMIT = {"f32": 2e-3, "f16": 1e-2, "q8_0": 0.1, "q4_0": 0.6}
# Least share of steps whose most likely code is the official one; random weights are the hardest case.
TOP1_FLOOR = {"f32": 1.0, "f16": 0.98, "q8_0": 0.92, "q4_0": 0.47}
MIN_FRAMES = 30


@dataclass(frozen=True, slots=True)
class Result:
    """One comparison: what, on which case, the figure, the limit it is held to, and whether it holds."""

    what: str
    case: str
    figure: str
    limit: str
    ok: bool


class Parts:
    """The kernels and tables of one bundle, opened as the engine opens them."""

    def __init__(self, bundle: Bundle, threads: int = 1) -> None:
        from cython_kernels.litert import LiteRtDecoder
        from cython_kernels.llama import LlamaTalker
        from cython_kernels.predictor import GgmlPredictor
        from edgettsd.engine.bundle_parts import load_tokenizer

        self.bundle, self.manifest = bundle, bundle.manifest
        self.file = bundle.open_embeddings()
        self.arrays: dict[str, npt.NDArray[Any]] = dict(self.file)
        self.tables = [self.arrays[f"codec.{group}"] for group in range(self.manifest.code_groups)]
        self.tokenizer = load_tokenizer(bundle)
        self.sampling = Sampling.from_manifest(self.manifest.raw)
        self.talker = LlamaTalker(bundle.files["talker.gguf"], max_context=CONTEXT, threads=threads)
        self.predictor = GgmlPredictor(bundle.files["predictor.gguf"], threads=threads)
        self.decoder = LiteRtDecoder(
            bundle.files["decoder.tflite"],
            groups=self.manifest.code_groups,
            samples_per_frame=self.manifest.samples_per_frame,
            chunks=self.manifest.decoder.chunks,
            threads=threads,
            entries=self.manifest.predictor.vocab,
        )

    @property
    def exact(self) -> bool:
        """Whether the codes must equal the official ones."""
        manifest = self.manifest
        return {manifest.talker.precision, manifest.predictor.precision, manifest.embeddings_dtype} == {"f32"}

    def builder(self, speaker: npt.NDArray[Any] | None = None) -> PromptBuilder:
        """Prompts of this bundle, with the voice "x-vector" where a reference embedding is given."""
        manifest, arrays = dict(self.manifest.raw), self.arrays
        if speaker is not None:
            entry: dict[str, Any] = {"row": "speaker.x-vector", "dialect": None, "languages": []}
            manifest["voices"] = {**manifest["voices"], "x-vector": entry}
            arrays = {**arrays, "speaker.x-vector": speaker}
        return PromptBuilder(manifest, arrays, self.tokenizer)

    def frame_row(self, codes: Sequence[int], step: int, trailing: Floats, pad_row: Floats) -> Floats:
        """The talker's input row [H] after frame `step` with its `codes` [groups]."""
        rows = (table[code].astype(np.float32) for table, code in zip(self.tables, codes, strict=True))
        text = trailing[step] if step < len(trailing) else pad_row
        total: Floats = np.sum(np.stack(list(rows)), axis=0) + text
        return total


def open_parts(folder: Path, threads: int = 1) -> Parts:
    """Check and open a bundle; raises ModelInvalidError."""
    return Parts(open_bundle(folder), threads)


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
    return parts.builder(reference.get("speaker")).build(
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
    yield Result("token ids", name, f"{len(ids)} ids", "equal", list(prompt.ids) == ids)
    worst = 0.0
    for field in ("prompt", "trailing", "pad_row"):
        ours, theirs = getattr(prompt, field), reference[field]
        worst = max(worst, float(np.abs(ours - theirs).max()) if ours.shape == theirs.shape else np.inf)
    limit = PROMPT_LIMIT if parts.manifest.embeddings_dtype == "f32" else 1e-2
    yield Result("prompt rows", name, f"{worst:.1e}", f"<= {limit:.0e}", worst <= limit)


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
    out = Generator(pipe, parts.talker, parts.predictor, parts.tables).run(
        pipe.next_generation(),
        prompt.prompt,
        prompt.trailing,
        prompt.pad_row,
        talker=LoopSampling(do_sample=False, repetition_penalty=penalty),
        predictor=greedy,
        eos=parts.sampling.eos,
        banned=parts.sampling.banned(parts.manifest.talker.vocab),
        min_frames=parts.sampling.min_new_tokens,
        max_frames=frames,
        collect=frames,
    )
    if out["error"] != "ok":
        raise RuntimeError(f"the frame loop failed: {out['error']}")
    codes: npt.NDArray[np.int16] = out["codes"]
    return codes


def compare_closed(parts: Parts, name: str, settings: Case, reference: Case) -> Iterator[Result]:
    """All codes of the closed loop, at f32; elsewhere the number of equal leading frames is only told."""
    codes = reference["codes"]
    ours = closed_loop(
        parts, build_prompt(parts, settings, reference), settings["frames"], settings["repetition_penalty"]
    )
    shared = min(len(ours), len(codes))
    same = (ours[:shared] == codes[:shared]).all(axis=1)
    leading = shared if same.all() else int(same.argmin())
    equal = len(ours) == len(codes) and leading == len(codes)
    figure = f"{leading}/{len(codes)} frames, {codes.shape[1]} codebooks"
    if not equal and leading < shared:
        book = int((ours[leading] != codes[leading]).argmax())
        figure += f"; first difference frame {leading} codebook {book}"
    yield Result("closed loop", name, figure, "all" if parts.exact else "told", equal or not parts.exact)


def snr_db(reference: npt.NDArray[Any], other: npt.NDArray[Any]) -> float:
    """Signal-to-noise ratio in dB of `other` against `reference`."""
    noise = float(np.sum((reference.astype(np.float64) - other) ** 2))
    signal = float(np.sum(reference.astype(np.float64) ** 2))
    return float("inf") if noise == 0.0 else 10.0 * float(np.log10(signal / noise))


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
    limit = DECODER_DB[precision]
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
    yield from compare_tokens(parts, oracle)
    for name, settings, reference in cases(oracle):
        settings = settings | {"frames": meta["frames"]}
        yield from compare_prompt(parts, name, settings, reference)
        forced.append(teacher_forced(parts, reference))
        yield compare_hidden(parts, name, forced[-1])
        yield from compare_closed(parts, name, settings, reference)
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
