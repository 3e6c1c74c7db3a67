"""Every bound of a bundle or the configuration: taken at its value and refused one above it, on all its ways.

The ways are the manifest, the configuration, the converter and the kernels. A value at a bound may be refused
for another reason (a file that holds nothing else), never for itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import litert_mini
import model_files
import numpy as np
import pytest
import tiny_gguf
from edgettsd_tools.families.qwen3_tts.checkpoint import Checkpoint
from edgettsd_tools.families.qwen3_tts.decoder import build_decoder
from edgettsd_tools.families.qwen3_tts.describe import describe

from cython_kernels.fake import FakeDecoder, FakePredictor, FakeTalker
from cython_kernels.fake_sink import FakeSink
from cython_kernels.frame_loop import DecodeLoop, Generator
from cython_kernels.litert import LiteRtDecoder
from cython_kernels.llama import LlamaTalker
from cython_kernels.pipe import Pipe
from cython_kernels.playout import AlsaSink, Playout
from cython_kernels.predictor import GgmlPredictor
from cython_kernels.sampler import Sampler
from edgettsd import limits
from edgettsd.config import Config, ConfigError
from edgettsd.errors import ModelInvalidError
from edgettsd.families.plan import talker_first
from edgettsd.models.manifest import parse_manifest

REFUSALS = (ModelInvalidError, ConfigError, ValueError)
EMPTY = tiny_gguf.Shape()


def manifest(path: str, make: Callable[[int], Any] = lambda value: value) -> Callable[[int, Path], None]:
    """The manifest with a field set; the predictor's input follows the talker's width."""

    def way(value: int, folder: Path) -> None:
        raw = json.loads((model_files.bundle() / "manifest.json").read_text())
        table, _, key = path.rpartition(".")
        (raw[table] if table else raw)[key] = make(value)
        if path == "talker.hidden":
            raw["predictor"]["input_hidden"] = value
        if path == "decoder.chunks":
            raw["schedule"]["chunks"] = [1]
        parse_manifest(json.dumps(raw).encode())

    return way


def config(path: str, make: Callable[[int], Any] = lambda value: value, **others: Any) -> Any:
    """The configuration with a key set."""
    section, _, key = path.partition(".")
    return lambda value, folder: Config().updated({section: {key: make(value), **others}}, "test")


def converter(*keys: str) -> Callable[[int, Path], None]:
    """A checkpoint's description with a value of one of its config.json files set."""

    def way(value: int, folder: Path) -> None:
        with Checkpoint(model_files.checkpoint()) as checkpoint:
            tables = {"config": checkpoint.config, "speech": checkpoint.speech_config}
            table = tables[keys[0]]
            for key in keys[1:-1]:
                table = table[key]
            table[keys[-1]] = value
            describe(checkpoint)

    return way


def talker_file(key: str) -> Callable[[int, Path], None]:
    """A talker's file that says so."""

    def way(value: int, folder: Path) -> None:
        path = tiny_gguf.write_talker(
            folder / "talker.gguf", tiny_gguf.talker(), keys={f"qwen3.{key}": value}
        )
        LlamaTalker(path, max_context=64, threads=1)

    return way


def predictor_file(key: str) -> Callable[[int, Path], None]:
    """A predictor's file that says so."""

    def way(value: int, folder: Path) -> None:
        keys = {f"qwen3tts-predictor.{key}": value}
        path = tiny_gguf.write_predictor(folder / "predictor.gguf", tiny_gguf.predictor(), keys=keys)
        GgmlPredictor(path, threads=1)

    return way


def decoder(name: str, make: Callable[[int], Any] = lambda value: value) -> Callable[[int, Path], None]:
    """A decoder that is asked for so much."""

    def way(value: int, folder: Path) -> None:
        mini = litert_mini.Mini()
        wanted = {"groups": mini.groups, "samples_per_frame": mini.spf, "entries": mini.entries, "threads": 1}
        LiteRtDecoder(mini.write(folder / "decoder.tflite"), **{"chunks": (1,), **wanted, name: make(value)})

    return way


def decoder_states(value: int, folder: Path) -> None:
    """A decoder's file with so many states."""
    mini = litert_mini.Mini(chunks=(1,), idle_states=value - 2)
    LiteRtDecoder(
        mini.write(folder / "decoder.tflite"),
        groups=mini.groups,
        samples_per_frame=mini.spf,
        entries=mini.entries,
        chunks=(1,),
        threads=1,
    )


def generator(talker_vocab: int | None = None, predictor_vocab: int | None = None) -> Any:
    """Frame loop with so many codes in one of the codebooks."""

    def way(value: int, folder: Path) -> None:
        first, second = (value if talker_vocab else 8), (value if predictor_vocab else 8)
        tables = [np.zeros((rows, 4), np.float32) for rows in (first, second)]
        Generator(
            Pipe(2, 8, 24000),
            FakeTalker(4, first, eos_after=3, eos_id=first - 1),
            FakePredictor(2, second, input_hidden=4),
            tables,
            talker_first(2, first - 1),
        )

    return way


def repeat_period(value: int, folder: Path) -> None:
    """Frame loop that looks for a pattern of this length."""
    pipe = Pipe(2, 8, 24000)
    talker = FakeTalker(4, 8, eos_after=1, eos_id=7)
    loop = Generator(
        pipe,
        talker,
        FakePredictor(2, 8, input_hidden=4),
        [np.zeros((8, 4), np.float32)] * 2,
        talker_first(2, 7),
    )
    rows = np.zeros((1, 4), np.float32)
    sampling = SimpleNamespace(do_sample=False, temperature=1.0, top_k=0, top_p=1.0, repetition_penalty=1.0)
    loop.run(
        pipe.next_generation(),
        rows,
        rows,
        rows[0],
        samplers=(sampling, sampling),
        repeat_frames=1,
        repeat_period=value,
    )


def schedule(make: Callable[[int], Any]) -> Callable[[int, Path], None]:
    """Decode loop with this schedule."""
    return lambda value, folder: DecodeLoop(
        Pipe(2, 8, 24000), FakeDecoder(2, 8, (1, 4)), kind="ramp", chunks=make(value)
    )


def converter_chunks(make: Callable[[int], Any]) -> Callable[[int, Path], None]:
    """The decoder's builder with these chunk sizes; without a configuration it ends after their check."""

    def way(value: int, folder: Path) -> None:
        build_decoder({}, lambda name: np.zeros(0, np.float32), folder / "x", "f16", make(value))

    return way


def ones(value: int) -> list[int]:
    return [1] * value


def up_to(value: int) -> list[int]:
    return list(range(1, value + 1))


def with_one(value: int) -> list[int]:
    return [1, value]


LM = "config", "talker_config"
FINE = "config", "talker_config", "code_predictor_config"
WAYS: dict[str, dict[str, Callable[[int, Path], Any]]] = {
    "MAX_GROUPS": {
        "manifest": manifest("code_groups"),
        "converter": converter(*LM, "num_code_groups"),
        "pipe": lambda value, folder: Pipe(value, 8, 24000),
        "predictor": predictor_file("code_groups"),
        "decoder": decoder("groups"),
    },
    "MAX_SPF": {
        "manifest": manifest("samples_per_frame"),
        "converter": converter("speech", "decode_upsample_rate"),
        "pipe": lambda value, folder: Pipe(2, value, 24000),
        "decoder": decoder("samples_per_frame"),
    },
    "MAX_VOCAB": {
        "manifest talker": manifest("talker.vocab"),
        "manifest predictor": manifest("predictor.vocab"),
        "converter talker": converter(*LM, "vocab_size"),
        "converter predictor": converter(*FINE, "vocab_size"),
        "talker": talker_file("vocab_size"),
        "predictor": predictor_file("vocab_size"),
        "decoder": decoder("entries"),
        "sampler": lambda value, folder: Sampler(value),
        "loop talker": generator(talker_vocab=1),
        "loop predictor": generator(predictor_vocab=1),
    },
    "MAX_CHUNK": {
        "manifest": manifest("decoder.chunks", with_one),
        "configuration": config("engine.chunks", lambda value: [value]),
        "converter": converter_chunks(with_one),
        "schedule": schedule(lambda value: [value]),
        "decoder": decoder("chunks", with_one),
    },
    "MAX_SIZES": {
        "manifest": manifest("decoder.chunks", up_to),
        "converter": converter_chunks(up_to),
        "decoder": decoder("chunks", up_to),
        "loop": lambda value, folder: FakeDecoder(2, 8, up_to(value)),
    },
    "MAX_STEPS": {
        "manifest": manifest("schedule.chunks", ones),
        "configuration": config("engine.chunks", ones),
        "schedule": schedule(ones),
    },
    "MAX_STATES": {"manifest": manifest("decoder.states"), "decoder": decoder_states},
    "MAX_HIDDEN": {
        "manifest talker": manifest("talker.hidden"),
        "manifest predictor": manifest("predictor.hidden"),
        "converter talker": converter(*LM, "hidden_size"),
        "converter predictor": converter(*FINE, "hidden_size"),
        "talker": talker_file("embedding_length"),
        "predictor": predictor_file("embedding_length"),
        "predictor's input": predictor_file("input_embedding_length"),
    },
    "MAX_FFN": {
        "manifest talker": manifest("talker.ffn"),
        "manifest predictor": manifest("predictor.ffn"),
        "converter talker": converter(*LM, "intermediate_size"),
        "converter predictor": converter(*FINE, "intermediate_size"),
        "talker": talker_file("feed_forward_length"),
        "predictor": predictor_file("feed_forward_length"),
    },
    "MAX_HEADS": {
        "manifest talker": manifest("talker.heads"),
        "manifest predictor": manifest("predictor.heads"),
        "converter talker": converter(*LM, "num_attention_heads"),
        "converter predictor": converter(*FINE, "num_attention_heads"),
        "talker": talker_file("attention.head_count"),
        "predictor": predictor_file("attention.head_count"),
    },
    "MAX_HEAD_DIM": {
        "manifest talker": manifest("talker.head_dim"),
        "manifest predictor": manifest("predictor.head_dim"),
        "converter talker": converter(*LM, "head_dim"),
        "converter predictor": converter(*FINE, "head_dim"),
        "talker": talker_file("attention.key_length"),
        "predictor": predictor_file("attention.key_length"),
    },
    "MAX_TALKER_LAYERS": {
        "manifest": manifest("talker.layers"),
        "converter": converter(*LM, "num_hidden_layers"),
        "talker": talker_file("block_count"),
    },
    "MAX_PREDICTOR_LAYERS": {
        "manifest": manifest("predictor.layers"),
        "converter": converter(*FINE, "num_hidden_layers"),
        "predictor": predictor_file("block_count"),
    },
    # What is configured is far below, and less than the model's own length is taken: no other way to it.
    "MAX_CONTEXT": {"talker": lambda value, folder: _talker(folder, max_context=value)},
    "MAX_GPU_LAYERS": {
        "configuration": config("engine.n_gpu_layers"),
        "talker": lambda value, folder: _talker(folder, n_gpu_layers=value),
    },
    "MAX_THREADS": {
        "configuration generator": config("engine.threads_generator"),
        "configuration decoder": config("engine.threads_decoder"),
        "talker": lambda value, folder: _talker(folder, threads=value),
        "predictor": lambda value, folder: GgmlPredictor(_nothing(folder), threads=value),
        "decoder": decoder("threads"),
    },
    "MAX_PERIOD": {"loop": repeat_period},
    "MAX_PERIOD_MS": {
        "configuration": config("audio.period_ms", buffer_ms=limits.MAX_BUFFER_MS),
        "device": lambda value, folder: AlsaSink(
            "none", 24000, period_ms=value, buffer_ms=limits.MAX_BUFFER_MS
        ),
    },
    "MAX_BUFFER_MS": {
        "configuration": config("audio.buffer_ms"),
        "device": lambda value, folder: AlsaSink("none", 24000, buffer_ms=value),
    },
    "MAX_FADE_MS": {
        "configuration": config("audio.fade_ms"),
        "device": lambda value, folder: AlsaSink("none", 24000, fade_ms=value),
        "fake device": lambda value, folder: FakeSink(24000, fade_ms=value),
    },
    "MAX_ROLL_MS": {
        "configuration": config("audio.preroll_ms"),
        "playout": lambda value, folder: Playout(Pipe(2, 8, 24000), preroll_ms=value),
    },
}


def _nothing(folder: Path) -> Path:
    """A file that is no model."""
    (folder / "nothing").write_bytes(b"")
    return folder / "nothing"


def _talker(folder: Path, **options: int) -> None:
    LlamaTalker(_nothing(folder), **{"max_context": 64, "threads": 1, **options})


def said(value: int, bound: int, way: Callable[[int, Path], Any], folder: Path) -> str:
    """What refused the value, "" when it was taken; folders are left out."""
    folder.mkdir()
    try:
        way(value, folder)
    except REFUSALS as error:
        return str(error).replace(str(folder), "")
    return ""


def test_every_bound_has_its_ways() -> None:
    assert set(WAYS) == set(limits.ALL)
    assert {name for name in vars(limits) if name.startswith("MAX_")} == set(limits.ALL)


@pytest.mark.parametrize(("name", "way"), [(name, way) for name, ways in WAYS.items() for way in ways])
def test_a_bound_holds_on_every_way(name: str, way: str, tmp_path: Path) -> None:
    bound = limits.ALL[name]
    at = said(bound, bound, WAYS[name][way], tmp_path / "at")
    above = said(bound + 1, bound, WAYS[name][way], tmp_path / "above")
    # The codes count as one of the inputs that the decoder's message speaks of.
    named = bound + 1 if way == "decoder" and name == "MAX_STATES" else bound
    assert re.search(rf"\b{named}\b", above), f"{bound + 1} was refused with {above!r}"
    # The same text with the other number would be a refusal of the bound itself.
    assert re.sub(rf"\b{bound}\b", "N", at) != re.sub(rf"\b({bound}|{bound + 1})\b", "N", above), at


def test_the_largest_code_keeps_its_sign() -> None:
    """The last row of the largest codebook; one more would be row -32768."""
    largest = limits.MAX_VOCAB - 1
    assert np.int16(largest) == largest
    pipe = Pipe(2, 8, 24000)
    talker = FakeTalker(4, limits.MAX_VOCAB, eos_after=2, eos_id=1, script=[largest, largest])
    tables = [np.zeros((limits.MAX_VOCAB, 4), np.float32), np.zeros((8, 4), np.float32)]
    rows = np.zeros((1, 4), np.float32)
    greedy = SimpleNamespace(do_sample=False, temperature=1.0, top_k=0, top_p=1.0, repetition_penalty=1.0)
    result = Generator(pipe, talker, FakePredictor(2, 8, input_hidden=4), tables, talker_first(2, 1)).run(
        pipe.next_generation(),
        rows,
        rows,
        rows[0],
        samplers=(greedy, greedy),
        max_frames=2,
        collect=2,
    )
    assert result["codes"][:, 0].tolist() == [largest, largest]


def test_a_decoder_must_be_able_to_take_one_frame() -> None:
    with pytest.raises(
        ModelInvalidError, match=r"decoder.chunks is \[2, 4\]; ascending sizes that begin with 1"
    ):
        manifest("decoder.chunks", lambda value: [value, 4])(2, Path())
