"""Write reference files of the official PyTorch model for one checkpoint (see ``tools/oracle --help``).

Per case one .npz: ids, instruct_ids int32; prompt, trailing, pad_row float32; codes int16 [T, 16]; hidden
float32 [T+1, H] (step 0 is the prefill); top1 int16 and gap float32 [T+1] (the raw arg-max of the talker's
logits and its lead); logit_steps, logits; sub_frames, sub_logits float16; speaker [H] with an x-vector.
decoder.npz: codes int16 [F, 16]; kept, the frames whose PCM is there; pcm float32 [len(kept) * 1920] of the
decoder's one full forward. tokens.json: ids of many texts. sampling.npz: see oracle_sampling. meta.json: how.
A checkpoint with a front end of its own (the built-in voice) has cases of its own, fewer codes a frame, and
its decoder gets what its talker said, over and over: random codes are no sound.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgettsd_tools.families.qwen3_tts.frontend import FOLDER
from edgettsd_tools.families.qwen3_tts.official import snr_db
from edgettsd_tools.families.qwen3_tts.oracle_cases import CASES, TEXTS, VOICE_CASES, Case

PARTS = ("cases", "decoder", "tokens", "sampling")
# Of a checkpoint with a front end of its own: it has no tokenizer, and the sampling code is the same.
VOICE_PARTS = ("cases", "decoder")
DECODER_FRAMES = 96
# Cases that keep the predictor's logits of one frame.
WITH_SUBS = ("streaming", "voice")
# Frames whose PCM is kept: the start, and a stretch past the decoder's 72-frame window.
DECODER_KEPT = (*range(12), *range(76, 96))
VOICE_KEPT = (*range(6, 9), *range(78, 84))


def checkpoint_digest(folder: Path) -> str:
    """SHA-256 over names and contents of the files that decide the model's numbers."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in (".json", ".safetensors", ".txt"):
            total.update(str(path.relative_to(folder)).encode() + b"\0")
            with path.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def x_vector(hidden: int) -> np.ndarray:
    """The speaker embedding float32 [hidden] of the x-vector cases: fixed, of the spread of a codec row."""
    return np.random.default_rng(7).normal(0.0, 0.5, hidden).astype(np.float32)


def arguments(case: Case, hidden: int, frames: int) -> dict[str, Any]:
    """Keyword arguments of the official wrapper for a case."""
    out: dict[str, Any] = {
        "text": case.text,
        "language": case.language,
        "non_streaming_mode": case.layout == "full",
        "do_sample": False,
        "subtalker_dosample": False,
        "repetition_penalty": case.repetition_penalty,
        # The last id drawn never gets its other codebooks.
        "max_new_tokens": frames + 1,
    }
    if case.task == "custom_voice":
        out |= {"speaker": case.voice or "", "instruct": case.instruct}
    elif case.task == "voice_design":
        out["instruct"] = case.instruct
    else:
        import torch

        given = case.voice == "x-vector"
        out["voice_clone_prompt"] = {
            "ref_code": None,
            "ref_spk_embedding": [torch.from_numpy(x_vector(hidden))],
            "x_vector_only_mode": [given],
            "icl_mode": [False],
        }
    return out


def run_case(model: Any, case: Case, frames: int, every_step: bool) -> dict[str, np.ndarray]:
    """The arrays of one case's .npz."""
    from edgettsd_tools.families.qwen3_tts import official

    hidden = model.model.config.talker_config.hidden_size
    trace = official.generate(model, case.task, arguments(case, hidden, frames))
    ordered = np.sort(trace.logits, axis=1)
    count = len(trace.logits)
    steps = list(range(count)) if every_step else sorted({0, min(17, count - 1)})
    # An early frame with others before it, or the last one that there is.
    early = min(3, len(trace.sub_logits) - 1)
    subs = [early] if case.name in WITH_SUBS and early >= 0 else []
    if every_step:
        subs = list(range(len(trace.sub_logits)))
    out = {
        "ids": trace.ids,
        "instruct_ids": trace.instruct_ids,
        "prompt": trace.prompt,
        "trailing": trace.trailing,
        "pad_row": trace.pad_row,
        "codes": trace.codes,
        "hidden": trace.hidden,
        "top1": trace.logits.argmax(axis=1).astype(np.int16),
        "gap": ordered[:, -1] - ordered[:, -2],
        "logit_steps": np.array(steps, np.int16),
        "logits": trace.logits[steps],
        "sub_frames": np.array(subs, np.int16),
        "sub_logits": trace.sub_logits[subs].astype(np.float16),
    }
    if case.voice == "x-vector":
        out["speaker"] = x_vector(hidden)
    return out


def random_codes(model: Any) -> np.ndarray:
    """Codes int16 [DECODER_FRAMES, groups] that the decoder of any checkpoint takes."""
    groups = model.model.config.talker_config.num_code_groups
    size = model.model.speech_tokenizer.model.config.decoder_config.codebook_size
    return np.random.default_rng(11).integers(0, size, (DECODER_FRAMES, groups)).astype(np.int16)


def run_decoder(
    model: Any, codes: np.ndarray, keep: Sequence[int], every_step: bool
) -> tuple[dict[str, np.ndarray], float]:
    """The arrays of decoder.npz, and the SNR in dB of the official chunked decode of the same codes."""
    from edgettsd_tools.families.qwen3_tts import official

    whole, chunked = official.full_decode(model, codes)
    kept = np.array(range(DECODER_FRAMES) if every_step else keep, np.int16)
    pcm = whole.reshape(DECODER_FRAMES, -1)[kept].reshape(-1)
    return {"codes": codes, "kept": kept, "pcm": pcm}, snr_db(whole, chunked)


def token_references(model: Any) -> list[dict[str, Any]]:
    """Ids of TEXTS by the official processor, inside the official template."""
    out = []
    for text in TEXTS:
        ids = model._tokenize_texts([model._build_assistant_text(text)])[0][0].tolist()
        out.append({"text": text, "ids": ids})
    return out


def _save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]


def _write(path: Path, value: Any, indent: int) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=indent) + "\n", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one checkpoint; returns the exit status."""
    parser = argparse.ArgumentParser(prog="tools/oracle", description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path, help="checkpoint folder in the official layout")
    parser.add_argument("out", type=Path, help="folder for the reference files")
    parser.add_argument("--frames", type=int, default=40, help="frames of every utterance (default 40)")
    parser.add_argument("--case", action="append", metavar="NAME", help="only this case; may be repeated")
    parser.add_argument("--every-step", action="store_true", help="keep logits and PCM of all steps (large)")
    parser.add_argument(
        "--parts",
        help=f"what to write, of {','.join(PARTS)} (default all; {','.join(VOICE_PARTS)} of a checkpoint"
        " with a front end of its own)",
    )
    args = parser.parse_args(argv)
    if args.frames < 1:
        parser.error(f"--frames {args.frames}: at least 1 is needed")
    voice = (args.checkpoint / FOLDER).is_dir()
    allowed = VOICE_PARTS if voice else PARTS
    wanted = args.parts or ",".join(allowed)
    parts = set(wanted.split(","))
    if not parts <= set(allowed):
        parser.error(f"--parts {args.parts}: allowed are {', '.join(allowed)}")
    if voice and "cases" not in parts:
        parser.error(f"--parts {args.parts}: the decoder is given the codes of the cases, which are needed")
    config_file = args.checkpoint / "config.json"
    if not config_file.is_file():
        parser.error(f"{config_file} does not exist: give a checkpoint folder in the official layout")
    task = json.loads(config_file.read_text(encoding="utf-8"))["tts_model_type"]
    known_cases = {c.name: c for c in (VOICE_CASES if voice else CASES) if c.task == task}
    cases = [case for name, case in known_cases.items() if not args.case or name in args.case]
    unknown = set(args.case or ()) - set(known_cases)
    if unknown:
        known = ", ".join(known_cases)
        parser.error(f"case {', '.join(sorted(unknown))} is unknown for {task}; known: {known}")

    from edgettsd_tools.families.qwen3_tts import official, oracle_sampling

    args.out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    print(f"loading {args.checkpoint}", file=sys.stderr)
    model = official.load(args.checkpoint)
    meta: dict[str, Any] = {
        "command": f"tools/oracle CHECKPOINT OUT --frames {args.frames} --parts {wanted}",
        "task": task,
        "checkpoint_sha256": checkpoint_digest(args.checkpoint),
        "versions": official.versions(),
        "frames": args.frames,
        "cases": {},
    }
    said: list[np.ndarray] = []
    for number, case in enumerate(cases if "cases" in parts else [], 1):
        arrays = run_case(model, case, args.frames, args.every_step)
        _save(args.out / f"{case.name}.npz", arrays)
        meta["cases"][case.name] = case.settings()
        said.append(arrays["codes"])
        print(f"[{number}/{len(cases)}] {case.name}: {len(arrays['codes'])} frames", file=sys.stderr)
    if "decoder" in parts:
        codes = np.concatenate(said) if voice else random_codes(model)
        codes = np.resize(codes, (DECODER_FRAMES, codes.shape[1]))
        keep = VOICE_KEPT if voice else DECODER_KEPT
        decoder, chunked_snr = run_decoder(model, codes, keep, args.every_step)
        _save(args.out / "decoder.npz", decoder)
        meta["official_chunked_decode_snr_db"] = round(chunked_snr, 1)
        if voice:
            meta["official_f32_snr_db"] = round(official.rounding_db(model, codes), 1)
    if "tokens" in parts:
        _write(args.out / "tokens.json", token_references(model), 0)
    if "sampling" in parts:
        _save(args.out / "sampling.npz", oracle_sampling.references(model))
    _write(args.out / "meta.json", meta, 1)
    print(f"wrote {args.out} in {time.monotonic() - started:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
