"""Fuzzing of everything that edgettsd parses itself: python tests/fuzz.py TARGET (tools/fuzz does it).

Guided by coverage where atheris is installed; else the same seeds are damaged at random. A target is wrong
when it raises anything but the refusal that it should, crashes, or takes more than 1 GB. The input that did
it stays as crash-* in the corpus folder.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

for folder in ("unit", ".", "../tools"):
    sys.path.insert(0, str(Path(__file__).resolve().parent / folder))

try:
    import atheris
except ImportError:
    atheris = None

PARSERS = ["edgettsd", "cython_kernels._flatbuffer", "cython_kernels._tflite_check"]
with atheris.instrument_imports(include=PARSERS) if atheris else contextlib.nullcontext():
    from dbus_fast import Variant

    import edgettsd.bus._options
    import edgettsd.config
    import edgettsd.models.gguf
    import edgettsd.models.manifest
    import edgettsd.models.safetensors
    from cython_kernels._tflite_check import check as check_tflite
    from edgettsd.bus import Limits
    from edgettsd.engine._api import Voice
    from edgettsd.errors import InvalidOptionError, InvalidTextError, ModelInvalidError, UnknownVoiceError
    from edgettsd.frontends.english.clean import clean
    from edgettsd.frontends.english.markup import plain
    from edgettsd.frontends.english.reader import read
    from edgettsd.frontends.english.scan import Scan
    from edgettsd.text.normalise import normalise
    from edgettsd.text.sentences import split_sentences

Target = Callable[[bytes], None]
LIMITS = Limits(max_text_bytes=10_000, max_seconds=300.0)
MEMORY_MB = 1024
MOST = 1 << 16
# In memory, so that millions of small files cost no disk.
FOLDER = Path(
    tempfile.mkdtemp(prefix="edgettsd-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
)
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


def _file(name: str, data: bytes) -> Path:
    path = FOLDER / name
    path.write_bytes(data)
    return path


def gguf(data: bytes) -> None:
    """Header of a GGUF file."""
    try:
        header = edgettsd.models.gguf.read_gguf_header(_file("x.gguf", data))
    except ModelInvalidError:
        return
    header.expect_tensors({name: tensor.shape for name, tensor in header.tensors.items()})


def safetensors(data: bytes) -> None:
    """A safetensors file, and every tensor in it."""
    try:
        with edgettsd.models.safetensors.SafetensorsFile(_file("x.safetensors", data)) as file:
            for name in file:
                assert file[name].nbytes <= len(data)
    except ModelInvalidError:
        return


def manifest(data: bytes) -> None:
    """A bundle's manifest."""
    with contextlib.suppress(ModelInvalidError):
        edgettsd.models.manifest.parse_manifest(data)


def config(data: bytes) -> None:
    """A configuration file."""
    with contextlib.suppress(edgettsd.config.ConfigError):
        edgettsd.config.load(_file("x.toml", data))


class _Bytes:
    """Choices made by the bytes of an input."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, count: int) -> bytes:
        piece, self.data = self.data[:count], self.data[count:]
        return piece

    def number(self) -> int:
        return int.from_bytes(self.take(8), "little", signed=True)

    def text(self) -> str:
        return self.take((self.take(1) or b"\0")[0]).decode("utf-8", "surrogateescape")

    def one_of(self, values: Sequence[Any]) -> Any:
        return values[int.from_bytes(self.take(1), "little") % len(values)]


def options(data: bytes) -> None:
    """Options of a call: keys, D-Bus types and values of any kind."""
    chosen, types = _Bytes(data), edgettsd.bus._options.TYPES
    told: dict[str, Variant] = {}
    while chosen.data and len(told) < 20:
        key = chosen.one_of([*types, "format", None]) or chosen.text()
        signature = chosen.one_of([types.get(key, "s"), "s", "b", "d", "t", "u", "x", "i"])
        value: Any = {
            "s": chosen.text,
            "b": lambda: bool(chosen.number() & 1),
            "d": lambda: chosen.one_of([float("nan"), float("inf"), -0.0, 1e308, chosen.number() / 1e3, 0.5]),
        }.get(signature, lambda: abs(chosen.number()) % (1 << 31))()
        try:
            told[key] = Variant(signature, value)
        except Exception:
            # No message of the bus can hold it.
            continue
    with contextlib.suppress(InvalidOptionError, UnknownVoiceError, InvalidTextError):
        edgettsd.bus._options.parse_options(
            told, LIMITS, [Voice("ryan", ("english",), "")], ["english"], with_format=True
        )


def text(data: bytes) -> None:
    """A text to speak: checked, cleaned up, cut into sentences."""
    spoken = data.decode("utf-8", "surrogateescape")
    try:
        edgettsd.bus._options.check_text(spoken, LIMITS)
    except InvalidTextError:
        return
    tidy = normalise(spoken)
    assert normalise(tidy) == tidy
    for sentence in split_sentences(tidy):
        assert sentence.strip()


LOOKS = 100
"""Patterns that the English reader may try for a character of a text."""


def english(data: bytes) -> None:
    """A text to the words that the English front end says; how often it looks is bounded."""
    from english_readings import well_formed

    spoken = data.decode("utf-8", "surrogateescape")
    looks, look = 0, Scan.look

    def counted(scan: Scan, pattern: re.Pattern[str]) -> re.Match[str] | None:
        nonlocal looks
        looks += 1
        return look(scan, pattern)

    Scan.look = counted  # type: ignore[method-assign]
    try:
        assert well_formed(read(spoken))
    finally:
        Scan.look = look  # type: ignore[method-assign]
    assert looks <= LOOKS * len(clean(plain(spoken)))


def tflite(data: bytes) -> None:
    """A codec decoder: our check of the file, then LiteRT with what has passed it."""
    from unit.test_litert import SHAPE

    from cython_kernels.litert import LiteRtDecoder

    file = _file("x.tflite", data)
    with contextlib.suppress(ValueError, RuntimeError):
        check_tflite(file)
        LiteRtDecoder(file, **SHAPE)


TARGETS: dict[str, Target] = {
    f.__name__: f for f in (gguf, safetensors, manifest, config, options, text, english, tflite)
}


def seeds(target: str) -> list[bytes]:
    """Inputs that the target takes as they are."""
    import tiny_gguf

    if target == "gguf":
        shape = tiny_gguf.Shape(hidden=32, layers=1, ffn=32, heads=1, kv_heads=1, vocab=8)
        tiny_gguf.write_talker(FOLDER / "seed", tiny_gguf.talker(shape))
        return [(FOLDER / "seed").read_bytes()]
    if target == "safetensors":
        small = {"a": [2, 3], "b": [4]}
        header = ",".join(
            f'"{name}":{{"dtype":"F32","shape":{shape},"data_offsets":[{at},{at + size}]}}'
            for (name, shape), at, size in zip(small.items(), (0, 24), (24, 16), strict=True)
        )
        padded = ("{" + header + "}").encode()
        padded += b" " * (-(8 + len(padded)) % 64)
        return [len(padded).to_bytes(8, "little") + padded + bytes(40)]
    if target == "manifest":
        # In a process of its own: what is watched for coverage is slow at making models.
        script = (
            "import sys, model_files; sys.stdout.write((model_files.bundle() / 'manifest.json').read_text())"
        )
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        return [subprocess.check_output([sys.executable, "-P", "-c", script], env=environment)]
    if target == "config":
        return [
            b'[model]\npath = "/x"\n[engine]\nchunks = [1, 4]\ncpus_decoder = "0-1,3"\nmax_seconds = 3.5\n',
            "\n".join(line.removeprefix("#") for line in edgettsd.config.sample().splitlines()).encode(),
        ]
    if target == "options":
        return [bytes(range(256)), b"\x06\x00" + b"\x01" * 20]
    if target == "text":
        return ["Hello there. It's 3.5 km, e.g. to Dr. Smith's!\n\n«Ça va?»".encode(), b"a" * 2000]
    if target == "english":
        lines = (
            "8 a.m.–5 p.m., Bus 42A to zip 90210; 11/30-12/5, 3/4 cup, PIN: 4321, call 911 or 999.",
            "6.02×10²³ e^x 2^31-1 00:1A:2B fe80::1%eth0 0x1F #ff8800 C# .NET Node.js v1.2.3 www.x.org/a?b=c",
            "<p class='a'>Tom &amp; <b>Ann</b></p><!-- x --><script>1<2</script> <3",
            "-5–0°C $5k-$10k 221B Baker St. List<String> cp <file> 2001:db8::1 commit 12e4567 550e8400-e29b",
        )
        return [line.encode() for line in lines]
    from litert_mini import Mini

    return [Mini(chunks=(1, 4, 8)).write(FOLDER / "seed.tflite").read_bytes()]


def damaged(rng: random.Random, data: bytes) -> bytes:
    """The data with a few random changes."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            del changed[at:]
        elif kind == 1:
            del changed[at : at + rng.randrange(1, 9)]
        elif kind == 2:
            changed[at:at] = bytes(changed[(other := rng.randrange(len(changed) + 1)) : other + 8])
        elif kind == 3 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        else:
            value = rng.choice([0, 1, 0x7F, 0xFF, 0x7FFFFFFF, 0xFFFFFFFF, (1 << 63) - 1, (1 << 64) - 1])
            changed[at : at + 8] = value.to_bytes(8, "little")[: rng.choice([1, 4, 8])]
    return bytes(changed[:MOST])


def at_random(target: Target, inputs: list[bytes], runs: int, seconds: float, seed: int) -> int:
    """Damage the seeds at random for so many runs or so long; how many runs that were."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    rng, end, done = random.Random(seed), time.monotonic() + seconds, 0
    while (done < runs or not runs) and (time.monotonic() < end or not seconds):
        data = damaged(rng, rng.choice(inputs)) if done >= len(inputs) else inputs[done]
        try:
            target(data)
        except BaseException:
            (Path.cwd() / f"crash-{target.__name__}-{seed}-{done}").write_bytes(data)
            raise
        done += 1
    return done


def _count(text: str) -> int:
    """A number of runs or seconds; 0: without this bound."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: a whole number from 0 on is needed")
    return int(text)


def main() -> None:
    """Run one target from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--runs", type=_count, default=0)
    parser.add_argument("--seconds", type=_count, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, help="folder that keeps what reached something new")
    parser.add_argument("--random", action="store_true", help="without coverage, also where atheris is there")
    asked = parser.parse_args()
    target, inputs = TARGETS[asked.target], seeds(asked.target)
    if not asked.runs and not asked.seconds:
        asked.seconds = 60
    if atheris is None or asked.random:
        done = at_random(target, inputs, asked.runs, asked.seconds, asked.seed)
        print(f"{asked.target}: {done} runs at random")
        return
    corpus = asked.corpus or FOLDER / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(inputs):
        (corpus / f"seed-{number}").write_bytes(data)
    arguments = [f"-seed={asked.seed}", f"-max_len={MOST}", f"-rss_limit_mb={MEMORY_MB}", "-timeout=20"]
    arguments += [f"-runs={asked.runs}"] if asked.runs else [f"-max_total_time={asked.seconds}"]
    arguments += ["-verbosity=0", "-print_final_stats=1", f"-artifact_prefix={corpus}/"]
    atheris.Setup([sys.argv[0], *arguments, str(corpus)], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
