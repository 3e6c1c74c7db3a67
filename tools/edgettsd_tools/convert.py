"""Convert an official checkpoint to a bundle for the device."""

from __future__ import annotations

import argparse
import contextlib
import errno
import glob
import hashlib
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from edgettsd import __version__
from edgettsd.errors import ModelInvalidError
from edgettsd.models.manifest import (
    DECODER_PRECISIONS,
    EMBEDDING_DTYPES,
    LM_PRECISIONS,
    parse_manifest,
)
from edgettsd.models.store import MANIFEST, PARTIAL, check_bundle

from .checkpoint import AdapterError
from .families import FAMILIES, Conversion, of_checkpoint
from .progress import EXIT_INTERRUPTED, EXIT_INVALID, EXIT_OK, EXIT_USAGE, die

TITLES = " or ".join(family.title for family in FAMILIES)
DESCRIPTION = f"""\
Convert an official checkpoint of {TITLES} (the folder with config.json, model.safetensors or its shards,
the tokenizer files and speech_tokenizer/) to a bundle that edgettsd loads. Needs no torch, and memory for one
tensor at a time. Every tensor is checked first; the bundle appears under its name only when it is complete.
"""
EPILOG = """\
precisions of --talker and --predictor, smallest and fastest first:
  q4_0  4 bits; the usual choice on small boards
  q4_K  4 bits, by ggml: a little closer to the checkpoint, a little slower where q4_0 has code of its own
  q8_0  8 bits; next to no loss, about 1.8 times the time
  f16   as exact as the checkpoint for practical purposes (ffn_down stays f32)
  f32   for comparison with the official code

exit status: 0 done, 1 the checkpoint is not valid or the disk is full, 2 wrong usage, 130 interrupted
"""
OLD = "old-"
HINT = f"is the download complete, and is it a {TITLES} checkpoint?"
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class Options:
    """What to make: precisions by part, the bundle's name and licence, speaker rows by voice name, and the
    speech tokenizer's folder where that is not in the checkpoint's."""

    talker: str = "q4_0"
    predictor: str = "q4_0"
    decoder: str = "f32"
    embeddings: str | None = None
    name: str | None = None
    license: str | None = None
    voices: Mapping[str, Path] = field(default_factory=dict)
    speech_tokenizer: Path | None = None


def convert(folder: Path, out: Path, options: Options, force: bool = False, quiet: bool = True) -> None:
    """Convert the checkpoint in `folder` to the bundle `out`.

    `out` must not exist unless `force`, which replaces a bundle (and nothing else). Raises ModelInvalidError
    when the checkpoint is not valid, FileExistsError, OSError; nothing is left of a failed attempt.
    """
    out = Path(os.path.abspath(out))
    _clean(out)
    _check_target(out, force)
    family = of_checkpoint(folder)

    def note(text: str) -> None:
        if not quiet:
            print(f"note: {text}", file=sys.stderr)

    with contextlib.closing(family.convert(folder, options, note)) as conversion:
        out.parent.mkdir(parents=True, exist_ok=True)
        partial = out.with_name(f"{out.name}{PARTIAL}{os.getpid()}")
        partial.mkdir()
        try:
            _write(conversion, folder, partial, out.name, options, quiet)
            _publish(partial, out, force)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise


def _check_target(out: Path, force: bool) -> None:
    if not (out.exists() or out.is_symlink()):
        return
    if not force:
        raise FileExistsError(f"{out} exists")
    ours = out.is_dir() and ((out / MANIFEST).is_file() or not any(out.iterdir()))
    if out.is_symlink() or not ours:
        raise FileExistsError(f"{out} exists and is not a bundle, it will not be replaced")


def _clean(out: Path) -> None:
    """Remove what conversions to the same place left behind when they were killed.

    A replaced bundle whose successor never got its name is given its own back.
    """
    for stale in sorted(out.parent.glob(f"{glob.escape(out.name)}{PARTIAL}*")):
        owner = stale.name.rsplit("-", 1)[1]
        if not owner.isdigit() or _alive(int(owner)):
            continue
        if f"{PARTIAL}{OLD}" in stale.name and not out.exists():
            os.rename(stale, out)
        else:
            shutil.rmtree(stale, ignore_errors=True)


def _alive(process: int) -> bool:
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _write(
    conversion: Conversion, folder: Path, partial: Path, default_name: str, options: Options, quiet: bool
) -> None:
    """Write every file of the bundle into `partial`, the manifest last."""
    source = {
        "checkpoint": folder.resolve().name,
        "config_sha256": _digest(folder / "config.json"),
        "converter": f"edgettsd {__version__}",
    }
    manifest = conversion.write(partial, options.name or default_name, source, quiet)
    manifest["files"] = {
        file.name: {"size": file.stat().st_size, "sha256": _digest(file)}
        for file in sorted(partial.iterdir())
    }
    text = (json.dumps(manifest, ensure_ascii=False, indent=2) + "\n").encode()
    parse_manifest(text, str(folder / "config.json"))
    with open(partial / MANIFEST, "wb") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def _digest(path: Path) -> str:
    with open(path, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    # The decoder's author does not sync its file; here every one of them passes by.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return digest


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _publish(partial: Path, out: Path, force: bool) -> None:
    """Give the finished folder its name; with `force` the bundle there before goes first."""
    check_bundle(partial)
    _sync_folder(partial)
    old = out.with_name(f"{out.name}{PARTIAL}{OLD}{os.getpid()}")
    if force and out.exists():
        os.rename(out, old)
    os.rename(partial, out)
    _sync_folder(out.parent)
    shutil.rmtree(old, ignore_errors=True)


def _voice(text: str) -> tuple[str, Path]:
    name, separator, file = text.partition("=")
    if not separator or not file or not _NAME.fullmatch(name):
        raise argparse.ArgumentTypeError(
            f"{text!r}: NAME=FILE.npy is needed, NAME of lower-case letters, digits, _ . and -"
        )
    return name, Path(file)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="convert",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT_DIR", type=Path)
    parser.add_argument("out", metavar="OUT_BUNDLE", type=Path, help="folder to create")
    for part in ("talker", "predictor"):
        parser.add_argument(f"--{part}", choices=LM_PRECISIONS, default="q4_0", help="default: %(default)s")
    parser.add_argument("--decoder", choices=DECODER_PRECISIONS, default="f32", help="default: %(default)s")
    parser.add_argument(
        "--embeddings", choices=EMBEDDING_DTYPES, help="default: f32 with --talker f32, otherwise f16"
    )
    parser.add_argument("--name", help="the model's name (default: the name of OUT_BUNDLE)")
    parser.add_argument("--license", help="default: what the checkpoint's README.md declares")
    parser.add_argument(
        "--voice-embedding",
        metavar="NAME=FILE.npy",
        type=_voice,
        action="append",
        default=[],
        help="Base checkpoints: add a voice from its x-vector, floats of the talker's hidden size",
    )
    parser.add_argument(
        "--speech-tokenizer",
        metavar="DIR",
        type=Path,
        help="folder of the speech tokenizer (default: speech_tokenizer in CHECKPOINT_DIR)",
    )
    parser.add_argument("--force", action="store_true", help="replace the bundle at OUT_BUNDLE")
    parser.add_argument("--quiet", action="store_true", help="print errors only")
    return parser


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM and SIGHUP end the conversion the way Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line entry point; returns the exit status."""
    options: Any = _parser().parse_args(arguments)
    voices = dict(options.voice_embedding)
    if len(voices) != len(options.voice_embedding):
        die("--voice-embedding: the same NAME twice", code=EXIT_USAGE)
    chosen = Options(
        options.talker,
        options.predictor,
        options.decoder,
        options.embeddings,
        options.name,
        options.license,
        voices,
        options.speech_tokenizer,
    )
    try:
        with _terminable():
            convert(options.checkpoint, options.out, chosen, options.force, options.quiet)
    except AdapterError as error:
        die(str(error), error.HINT, EXIT_INVALID)
    except ModelInvalidError as error:
        ours = str(error).startswith("--")
        die(str(error), None if ours else HINT, EXIT_USAGE if ours else EXIT_INVALID)
    except FileExistsError as error:
        die(str(error), "choose another name, or use --force to replace a bundle", EXIT_USAGE)
    except ModuleNotFoundError as error:
        die(
            f"the Python package {error.name} is missing",
            "run tools/try once, it installs what tools/convert needs",
            EXIT_USAGE,
        )
    except OSError as error:
        hint = "free some space, or name a folder on another disk" if error.errno == errno.ENOSPC else None
        die(f"{error.filename or options.out}: {error.strerror or error}", hint, EXIT_INVALID)
    except KeyboardInterrupt:
        print("interrupted, nothing was written", file=sys.stderr)
        return EXIT_INTERRUPTED
    if not options.quiet:
        print(f"{options.out} is ready", file=sys.stderr)
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
