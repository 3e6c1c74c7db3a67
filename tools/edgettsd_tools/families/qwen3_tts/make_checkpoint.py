"""Write a random Qwen3-TTS checkpoint in the layout of the official ones."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...progress import EXIT_USAGE, Progress, die
from ...safetensors_writer import Entry, write_safetensors
from . import layout, sizes, vocab
from .weights import DEFAULT_EOS_LOGIT, Floats, Weights

DESCRIPTION = """\
Write random weights in exactly the layout of an official Qwen3-TTS checkpoint (config.json,
model.safetensors, a real Qwen2 tokenizer, speech_tokenizer/), for tests and benchmarks. What such a model
says is noise, but its shapes, ranges and cost are those of the real one. The same arguments give the same
bytes on every machine.
"""
# The model card's front matter is where a checkpoint declares its licence.
README = """\
---
license: apache-2.0
---

Random weights in the layout of Qwen3-TTS, made by make_checkpoint for tests: what they say is noise.
"""
EPILOG = """\
sizes: tiny (64 channels, 2 layers, about 25 MB), tiny17 (as tiny, but the code predictor is narrower than
the talker, as in 1.7B), 0.6b (2.5 GB), 1.7b (4.5 GB). The true sizes are bfloat16 with a float32 speech
tokenizer, the tiny ones float32 throughout.
"""


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def make_checkpoint(
    out: Path,
    size: str,
    task: str,
    seed: int,
    eos_logit: float = DEFAULT_EOS_LOGIT,
    quiet: bool = True,
    *,
    large_activations: bool = False,
) -> None:
    """Write a checkpoint to `out`, a folder that must not exist yet; nothing is left of a failed attempt.

    Raises FileExistsError; ValueError for a size or a task that does not exist.
    """
    if size not in sizes.SIZES:
        raise ValueError(f"size {size!r}: allowed are {', '.join(sizes.SIZES)}")
    if task not in sizes.TASKS:
        raise ValueError(f"task {task!r}: allowed are {', '.join(sizes.TASKS)}")
    out.mkdir(parents=True)
    try:
        _fill(out, size, task, seed, eos_logit, quiet, large_activations)
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        raise


def _fill(
    out: Path, size: str, task: str, seed: int, eos_logit: float, quiet: bool, large_activations: bool
) -> None:
    config = sizes.model_config(size, task)
    speech_config = sizes.speech_tokenizer_config(size)
    speech = out / "speech_tokenizer"
    speech.mkdir()
    weights = Weights(seed, config, speech_config, eos_logit, large_activations)

    def produce(entry: Entry) -> Iterator[Floats]:
        return weights.blocks(entry.name, entry.shape)

    dtype = "F32" if size.startswith("tiny") else "BF16"
    files = (
        (out / "model.safetensors", layout.model_shapes(config), dtype),
        (speech / "model.safetensors", layout.speech_tokenizer_shapes(speech_config), "F32"),
    )
    entries = [[Entry(name, kind, shape) for name, shape in shapes.items()] for _, shapes, kind in files]
    total = sum(entry.nbytes for group in entries for entry in group)
    with Progress(0 if quiet else total, "random weights", always=False) as bar:
        advance = (lambda count: None) if quiet else bar.advance
        for (path, _, _), group in zip(files, entries, strict=True):
            write_safetensors(path, group, produce, metadata={"format": "pt"}, advance=advance)
    _write_json(out / "generation_config.json", sizes.generation_config())
    _write_json(out / "preprocessor_config.json", sizes.preprocessor_config())
    _write_json(speech / "config.json", speech_config)
    _write_json(speech / "preprocessor_config.json", sizes.feature_extractor_config())
    vocab.write_tokenizer(out)
    (out / "README.md").write_text(README, encoding="utf-8")
    _write_json(out / "config.json", config)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make_checkpoint",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("out", metavar="OUT", type=Path, help="folder to create")
    parser.add_argument("--size", choices=sizes.SIZES, required=True)
    parser.add_argument("--task", choices=sizes.TASKS, default="custom_voice", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument(
        "--eos-logit",
        type=float,
        default=DEFAULT_EOS_LOGIT,
        help="mean of the end-of-speech logit, other logits being 0 +- 2.5; greedy decoding ends by itself "
        "from about 9, sampled utterances get longer as it gets lower (default: %(default)s)",
    )
    parser.add_argument(
        "--large-activations",
        action="store_true",
        help="drive the feed-forward layers beyond float16's range, as official checkpoints do; "
        "what the model says stays the same",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line entry point; returns the exit status."""
    options = _parser().parse_args(arguments)
    if options.seed < 0:
        die(f"--seed {options.seed}: must not be negative", code=EXIT_USAGE)
    try:
        make_checkpoint(
            options.out,
            options.size,
            options.task,
            options.seed,
            options.eos_logit,
            quiet=False,
            large_activations=options.large_activations,
        )
    except FileExistsError:
        die(f"{options.out} exists", "name a folder that does not exist, or remove this one", EXIT_USAGE)
    except OSError as error:
        die(f"cannot write {options.out}: {error.strerror or error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
