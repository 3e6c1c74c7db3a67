"""Train the built-in English voice, step by step. Every step can be stopped and started again."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgettsd_tools.progress import EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, die

DESCRIPTION = """\
Train the built-in English voice: sentences, teacher audio, codec, talker, export, evaluation. All that is
made lies in one work folder. Every step takes up where it was stopped; the training counts its CPU minutes
over all runs, saves every four minutes, and reads new teacher audio as it comes.
"""
EPILOG = """\
a whole training, in order; docs/voice.md has the numbers that the voice in the package was made with:
  tools/train_voice synth WORK --hours HOURS
  tools/train_voice codec WORK
  tools/train_voice talker WORK --minutes MINUTES
  tools/train_voice frontend WORK
  tools/train_voice export WORK OUT_CHECKPOINT --gain GAIN
  tools/convert OUT_CHECKPOINT OUT_BUNDLE --talker q8_0 --predictor f16 --decoder w8 --name joe
  tools/train_voice eval WORK --bundle OUT_BUNDLE
"""

# What tells an earlier export from a folder of somebody's.
EXPORTED = ("config.json", "model.safetensors", "speech_tokenizer/config.json")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="train_voice",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default: %(default)s)")
    steps = parser.add_subparsers(dest="step", required=True, metavar="STEP")

    def step(name: str, text: str) -> argparse.ArgumentParser:
        added = steps.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        added.add_argument("work", metavar="WORK", type=Path, help="work folder")
        return added

    corpus = step("corpus", "write the sentences, and which of them are held out, to WORK/sentences.txt")
    synth = step("synth", "let the teacher speak the sentences")
    synth.add_argument("--hours", type=float, default=4.0, help="hours of speech (default: %(default)s)")
    codec = step("codec", "fit the codec to the teacher audio that there is")
    codec.add_argument("--groups", type=int, default=11, help="codes a frame (default: %(default)s)")
    codec.add_argument("--entries", type=int, default=256, help="entries a code (default: %(default)s)")
    codec.add_argument("--dims", type=int, default=64, help="principal components (default: %(default)s)")
    training = step("talker", "train the talker")
    training.add_argument(
        "--minutes", type=float, required=True, help="CPU minutes in all runs together, with those before"
    )
    training.add_argument("--rate", type=float, help="highest learning rate")
    training.add_argument("--decay", type=float, help="last part of the time in which the rate falls, 0 to 1")
    training.add_argument(
        "--dropout", type=float, help="share of what each layer adds that is left out, 0 to below 1"
    )
    for seeded in (corpus, codec, training):
        seeded.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    step("frontend", "make lexicon, letter-to-sound model and phone lengths: WORK/frontend")
    export = step("export", "write a checkpoint in the official layout")
    export.add_argument(
        "out", metavar="OUT_CHECKPOINT", type=Path, help="folder; a checkpoint there is replaced"
    )
    export.add_argument(
        "--gain", type=float, default=1.0, help="louder by this factor (default: %(default)s)"
    )
    evaluate = step("eval", "word error rates by whisper-tiny, and spectra beside the teacher's")
    evaluate.add_argument("--bundle", type=Path, help="the bundle to be heard through the real engine")
    evaluate.add_argument("--count", type=int, default=200, help="sentences at most (default: %(default)s)")
    evaluate.add_argument(
        "--sources",
        default="teacher,codec,decoder,voice,bundle",
        help="what is heard, separated by commas (default: %(default)s)",
    )
    return parser


def _given(options: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(options, name) for name in names if getattr(options, name, None) is not None}


def _codec(options: Any) -> None:
    import numpy as np

    from edgettsd_tools.voice import codec, data

    path = options.work / "codec.npz"
    if path.exists():
        print(f"{path} is there: decoder and talker depend on it, so it stays", flush=True)
        return
    shards = data.shards(options.work / "synth")
    if not shards:
        die(f"{options.work / 'synth'} has no audio", "run the step synth first", EXIT_USAGE)
    rows = np.concatenate([data.features_of(shard) for shard in shards])
    made = codec.fit(rows, options.groups, options.entries, options.dims, options.seed)
    made.save(path)
    for groups, error in enumerate(codec.distortions(made, rows), 1):
        print(f"{groups} codes: {error:.1%} of the variance is lost", flush=True)


def _replaceable(out: Path) -> bool:
    """Whether nothing but an earlier export would be lost with the folder `out`."""
    if not (out.exists() or out.is_symlink()):
        return True
    if out.is_symlink() or not out.is_dir():
        return False
    return not any(out.iterdir()) or all((out / name).is_file() for name in EXPORTED)


def _run(options: Any) -> None:
    if options.step == "corpus":
        from edgettsd_tools.voice.corpus import held_out, sentences
        from edgettsd_tools.voice.synth import lexicon

        texts = sentences(lexicon(), options.seed)
        options.work.mkdir(parents=True, exist_ok=True)
        lines = [f"{'held-out' if held_out(text) else 'train'}\t{text}\n" for text in texts]
        (options.work / "sentences.txt").write_text("".join(lines), encoding="utf-8")
        print(f"{len(texts)} sentences", flush=True)
    elif options.step == "synth":
        from edgettsd_tools.voice.synth import synthesize

        synthesize(options.work / "synth", options.hours, options.threads)
    elif options.step == "codec":
        _codec(options)
    elif options.step == "talker":
        from edgettsd_tools.voice import train_talker

        train_talker.train(
            options.work,
            options.minutes,
            seed=options.seed,
            sizes=_given(options, "dropout"),
            **_given(options, "rate", "decay"),
        )
    elif options.step == "frontend":
        from edgettsd_tools.voice import durations, letters
        from edgettsd_tools.voice import lexicon as pronunciations

        folder = options.work / "frontend"
        folder.mkdir(parents=True, exist_ok=True)
        spelling = folder / "letters.bin"
        letters.main([str(spelling), "--threads", str(options.threads)])
        # The dictionary leaves out what the letters say, so it belongs to this very model.
        pronunciations.main([str(folder / "lexicon.bin"), "--letters", str(spelling)])
        durations.main([str(options.work / "synth"), str(folder / "durations.bin")])
    elif options.step == "export":
        from edgettsd_tools.voice.export import export_checkpoint

        export_checkpoint(options.work, options.out, options.gain)
    else:
        from edgettsd_tools.voice.evaluate import evaluate

        evaluate(options.work, options.sources.split(","), options.count, options.bundle)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line entry point; returns the exit status."""
    options = _parser().parse_args(arguments)
    if options.threads < 1:
        die(f"--threads {options.threads}: at least 1 is needed", code=EXIT_USAGE)
    dropout = getattr(options, "dropout", None)
    if dropout is not None and not 0.0 <= dropout < 1.0:
        die(f"--dropout {dropout:g}: 0 or more and less than 1 is needed", code=EXIT_USAGE)
    if options.step == "export" and not _replaceable(options.out):
        die(f"{options.out} exists and is not a checkpoint, it will not be replaced", code=EXIT_USAGE)
    # Before numpy and torch are imported: they read these once.
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)
    try:
        if options.step in ("talker", "export", "eval"):
            import torch

            torch.set_num_threads(options.threads)
            torch.set_flush_denormal(True)
        _run(options)
    except ModuleNotFoundError as error:
        hint = "docs/voice.md tells how to make the environment"
        die(f"the Python package {error.name} is missing", hint, EXIT_USAGE)
    except (FileNotFoundError, ValueError) as error:
        die(str(error), "docs/voice.md has the order of the steps")
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from the last checkpoint", file=sys.stderr)
        return EXIT_INTERRUPTED
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
