"""The authored TFLite decoder against a plain numpy forward pass, and what its file promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import decoder_reference as reference
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from edgettsd_tools.families.qwen3_tts.decoder import build_decoder
from numpy.typing import NDArray

FRAMES = 45
SAMPLES = 1920
# fill count, entry, 2 per layer, 2 upsample stages, first and last conv, 4 blocks of 1 + 3
STATES = 2 + 2 * reference.SMALL["num_hidden_layers"] + 2 + 2 + 4 * 4


class Stream:
    """Runs a decoder file chunk by chunk with its explicit state."""

    def __init__(self, path: Path) -> None:
        self._interpreter = Interpreter(str(path), num_threads=1)
        self.signatures = self._interpreter.get_signature_list()
        self.runners = {
            int(key.removeprefix("decode_")): self._interpreter.get_signature_runner(key)
            for key in self.signatures
        }
        self.state: dict[str, NDArray[np.float32]] = {}
        self.reset()

    def reset(self) -> None:
        details = next(iter(self.runners.values())).get_input_details()
        self.state = {n: np.zeros(d["shape"], np.float32) for n, d in details.items() if n != "codes"}

    def step(self, codes: NDArray[np.int32]) -> NDArray[np.float32]:
        self.state = self.runners[len(codes)](codes=codes[None], **self.state)
        pcm: NDArray[np.float32] = self.state.pop("pcm")
        assert pcm.shape == (1, len(codes) * SAMPLES)
        return pcm[0]

    def decode(self, codes: NDArray[np.int32], schedule: list[int]) -> NDArray[np.float32]:
        assert sum(schedule) == len(codes)
        self.reset()
        ends = np.cumsum(schedule)
        return np.concatenate([self.step(codes[e - n : e]) for n, e in zip(schedule, ends, strict=True)])


def snr(wanted: NDArray[Any], got: NDArray[Any]) -> float:
    """Signal to noise in dB."""
    assert wanted.shape == got.shape
    noise = np.mean((got.astype(np.float64) - wanted) ** 2)
    return float(10 * np.log10(np.mean(wanted.astype(np.float64) ** 2) / max(noise, 1e-30)))


def schedule(frames: int, *first: int) -> list[int]:
    """The first chunks given, then the largest that fit."""
    out = list(first)
    while (left := frames - sum(out)) > 0:
        out.append(max(n for n in (8, 4, 1) if n <= left))
    return out


def random_schedule(frames: int, seed: int) -> list[int]:
    rng = np.random.default_rng(seed)
    out: list[int] = []
    while (left := frames - sum(out)) > 0:
        out.append(int(rng.choice([n for n in (8, 4, 1) if n <= left])))
    return out


SCHEDULES = {
    "ones": [1] * FRAMES,
    "one then eights": schedule(FRAMES, 1),
    "four four eight": schedule(FRAMES, 4, 4, 8),
    "ramp": schedule(FRAMES, 1, 4, 8),
    "random": random_schedule(FRAMES, 1),
}


@pytest.fixture(scope="module")
def tensors() -> reference.Tensors:
    return reference.random_tensors(reference.SMALL, 7)


@pytest.fixture(scope="module")
def codes() -> NDArray[np.int32]:
    rng = np.random.default_rng(8)
    size = (FRAMES, reference.SMALL["num_quantizers"])
    return rng.integers(0, reference.SMALL["codebook_size"], size, dtype=np.int32)


@pytest.fixture(scope="module")
def wanted(tensors: reference.Tensors, codes: NDArray[np.int32]) -> NDArray[np.float64]:
    out = reference.decode(reference.SMALL, tensors, codes)
    # Comparing silence or a clipped square wave would prove nothing.
    assert 0.05 < out.std() < 0.9
    assert np.mean(np.abs(out) >= 1) < 0.1
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("decoder")


def _build(folder: Path, name: str, tensors: reference.Tensors, **options: Any) -> Path:
    path = folder / f"{name}.tflite"
    config = options.pop("config", reference.SMALL)
    build_decoder(config, tensors.__getitem__, path, **options)
    return path


@pytest.fixture(scope="module", params=["toom", "direct"])
def f32(request: pytest.FixtureRequest, folder: Path, tensors: reference.Tensors) -> Stream:
    return Stream(_build(folder, f"f32_{request.param}", tensors, conv=request.param))


@pytest.mark.parametrize("name", SCHEDULES)
def test_chunked_equals_the_full_forward(
    name: str, f32: Stream, codes: NDArray[np.int32], wanted: NDArray[np.float64]
) -> None:
    pcm = f32.decode(codes, SCHEDULES[name])
    assert pcm.shape == (FRAMES * SAMPLES,)
    assert snr(wanted, pcm) >= 100
    assert np.abs(pcm).max() <= 1


def test_the_past_matters_beyond_one_chunk(f32: Stream, codes: NDArray[np.int32]) -> None:
    """A decoder that drops its state would still pass with one chunk: it must differ."""
    whole = f32.decode(codes, SCHEDULES["ones"])
    f32.reset()
    fresh = f32.step(codes[8:16])
    assert snr(whole[8 * SAMPLES : 16 * SAMPLES], fresh) < 30


def test_zero_state_restarts_the_stream(f32: Stream, codes: NDArray[np.int32]) -> None:
    first = f32.decode(codes[:9], [1, 8])
    f32.decode(codes, SCHEDULES["random"])
    assert np.array_equal(first, f32.decode(codes[:9], [1, 8]))


def test_signatures_and_states(f32: Stream) -> None:
    assert set(f32.signatures) == {"decode_1", "decode_4", "decode_8"}
    shapes = []
    for frames, runner in f32.runners.items():
        inputs, outputs = runner.get_input_details(), runner.get_output_details()
        assert list(inputs["codes"]["shape"]) == [1, frames, 16]
        assert inputs["codes"]["dtype"] == np.int32
        assert list(outputs["pcm"]["shape"]) == [1, frames * SAMPLES]
        names = {f"state_{i:02d}" for i in range(STATES)}
        assert set(inputs) == names | {"codes"}
        assert set(outputs) == names | {"pcm"}
        for name in names:
            assert list(inputs[name]["shape"]) == list(outputs[name]["shape"])
            assert inputs[name]["dtype"] == outputs[name]["dtype"] == np.float32
        shapes.append({n: tuple(inputs[n]["shape"]) for n in names})
    assert shapes[0] == shapes[1] == shapes[2]
    window, heads, dim = (reference.SMALL[k] for k in ("sliding_window", "num_attention_heads", "head_dim"))
    caches = [s for s in shapes[0].values() if s == (1, heads, window - 1, dim)]
    assert len(caches) == 2 * reference.SMALL["num_hidden_layers"]


def test_result_describes_the_file(folder: Path, tensors: reference.Tensors) -> None:
    got = build_decoder(
        reference.SMALL, tensors.__getitem__, folder / "one.tflite", precision="f32", chunks=(2,)
    )
    assert got == {"precision": "f32", "chunks": [2], "states": STATES}
    assert list(Stream(folder / "one.tflite").runners) == [2]
    assert not list(folder.glob("*.part"))


def _states_are_read_once(graph: Any) -> None:
    """Every state input has one reader, which runs before the successor is written."""
    names = {t: graph.tensors[t].name.decode().rpartition("_state_")[2] for t in graph.inputs}
    pairs = dict(zip(list(graph.inputs)[1:], list(graph.outputs)[1:], strict=True))
    for state, successor in pairs.items():
        readers = [i for i, op in enumerate(graph.operators) if state in op.inputs]
        writers = [i for i, op in enumerate(graph.operators) if successor in op.outputs]
        assert len(readers) == len(writers) == 1, names[state]
        assert readers[0] < writers[0], names[state]


@pytest.mark.parametrize("conv", ["toom", "direct"])
def test_states_may_be_updated_in_place(conv: str, folder: Path, tensors: reference.Tensors) -> None:
    data = _build(folder, f"in_place_{conv}", tensors, conv=conv).read_bytes()
    model = schema.ModelT.InitFromPackedBuf(bytearray(data), 0)
    assert len(model.subgraphs) == 3
    for graph in model.subgraphs:
        _states_are_read_once(graph)


@pytest.mark.parametrize("precision", ["f32", "f16", "int8", "w8"])
def test_signatures_share_aligned_weights(precision: str, folder: Path, tensors: reference.Tensors) -> None:
    three = _build(folder, f"three_{precision}", tensors, precision=precision)
    one = _build(folder, f"single_{precision}", tensors, precision=precision, chunks=(4,))
    model = schema.ModelT.InitFromPackedBuf(bytearray(three.read_bytes()), 0)
    weights = sum(b.data.nbytes for b in model.buffers if b.data is not None)
    # What is left are tensor and operator tables, which are a subgraph's own.
    tables = three.stat().st_size - weights
    assert three.stat().st_size - one.stat().st_size < 0.75 * tables + 0.2 * weights
    used = [{t.buffer for t in g.tensors if t.buffer} for g in model.subgraphs]
    big = {i for i, b in enumerate(model.buffers) if b.data is not None and b.data.nbytes > 4096}
    assert big
    assert all(big <= {*indices} for indices in used)
    raw = three.read_bytes()
    packed = schema.Model.GetRootAs(raw, 0)
    for i in range(packed.BuffersLength()):
        data = packed.Buffers(i)
        if not data.DataIsNone():
            start = data._tab.Vector(data._tab.Offset(4))
            assert start % 64 == 0


def test_f16_is_the_f32_decoder_with_rounded_weights(
    folder: Path, tensors: reference.Tensors, codes: NDArray[np.int32], wanted: NDArray[np.float64]
) -> None:
    path = _build(folder, "f16", tensors, precision="f16")
    stream = Stream(path)
    pcm = stream.decode(codes, SCHEDULES["random"])
    assert 50 < snr(wanted, pcm) < 90
    assert snr(pcm, stream.decode(codes, SCHEDULES["ones"])) >= 100


def test_int8_keeps_its_floor(
    folder: Path, tensors: reference.Tensors, codes: NDArray[np.int32], wanted: NDArray[np.float64]
) -> None:
    stream = Stream(_build(folder, "int8", tensors, precision="int8"))
    for name in ("ones", "ramp"):
        assert snr(wanted, stream.decode(codes, SCHEDULES[name])) > 28


def test_shared_key_heads_and_attention_bias(folder: Path) -> None:
    config = reference.SMALL | {"num_key_value_heads": 2, "attention_bias": True}
    tensors = reference.random_tensors(config, 3)
    codes = np.random.default_rng(4).integers(0, config["codebook_size"], (20, 16), dtype=np.int32)
    stream = Stream(_build(folder, "grouped", tensors, config=config))
    wanted = reference.decode(config, tensors, codes)
    assert snr(wanted, stream.decode(codes, [1, 8, 4, 1, 1, 4, 1])) >= 100


def test_streams_longer_than_the_position_limit(folder: Path) -> None:
    """Nothing counts positions: the same window of codes sounds the same however late it comes."""
    config = reference.SMALL | {"max_position_embeddings": 16}
    tensors = reference.random_tensors(config, 5)
    stream = Stream(_build(folder, "long", tensors, config=config))
    period = np.random.default_rng(6).integers(0, config["codebook_size"], (40, 16), dtype=np.int32)
    pcm = stream.decode(np.tile(period, (6, 1)), [8] * 30).reshape(6, -1)
    # Two layers of a window of 9 and the convolutions reach back less than one period.
    assert snr(pcm[1], pcm[5]) >= 120
    assert np.isfinite(pcm).all()
