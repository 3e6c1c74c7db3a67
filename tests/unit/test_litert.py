"""The LiteRT decoder on a miniature model whose output is known from numpy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as tfl
from litert_mini import Mini
from numpy.typing import NDArray

from cython_kernels.litert import LiteRtDecoder

MINI = Mini(chunks=(1, 4, 8))
SHAPE = {"groups": MINI.groups, "samples_per_frame": MINI.spf, "entries": MINI.entries}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return MINI.write(tmp_path_factory.mktemp("mini") / "decoder.tflite")


def make(path: Path, **kwargs: Any) -> LiteRtDecoder:
    return LiteRtDecoder(path, **{**SHAPE, **kwargs})


def run(decoder: LiteRtDecoder, codes: NDArray[np.int32], sizes: list[int]) -> NDArray[np.float32]:
    at, parts = 0, []
    for n in sizes:
        parts.append(decoder.decode(codes[at : at + n]))
        at += n
    assert at == len(codes)
    return np.concatenate(parts)


def rss_kib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * (os.sysconf("SC_PAGE_SIZE") // 1024)


@pytest.mark.parametrize("sizes", [[1] * 24, [4] * 6, [8] * 3, [1, 4, 8, 4, 1, 1, 1, 4]])
def test_every_chunking_equals_the_whole(model: Path, sizes: list[int]) -> None:
    codes = MINI.random_codes(24)
    pcm = run(make(model), codes, sizes)
    assert pcm.dtype == np.float32 and pcm.shape == (24 * MINI.spf,)
    np.testing.assert_allclose(pcm, MINI.reference(codes), atol=1e-6)


def test_reset_starts_a_new_stream_from_either_copy_of_the_state(model: Path) -> None:
    decoder, codes = make(model), MINI.random_codes(9)
    for frames in (1, 2):
        run(decoder, codes[:frames], [1] * frames)
        decoder.reset()
        np.testing.assert_allclose(run(decoder, codes, [8, 1]), MINI.reference(codes), atol=1e-6)
        decoder.reset()


def test_properties(model: Path) -> None:
    decoder = make(model, threads=1)
    assert decoder.sizes == (1, 4, 8) and decoder.groups == 4 and decoder.samples_per_frame == 32
    info = decoder.info
    assert info["version"] == "2.3.0" and info["accelerator"] == "cpu" and info["threads"] == 1
    assert info["states"] == 2 and info["state_bytes"] == 4 * (MINI.spf + 1) and info["weight_cache"] == ""
    assert info["fully_delegated"] is False, "GATHER is not an operator of XNNPACK"


def test_a_subset_of_the_signatures(model: Path) -> None:
    decoder = make(model, chunks=(4,))
    with pytest.raises(ValueError, match="codes has 1 frames, allowed 4"):
        decoder.decode(MINI.random_codes(1))


@pytest.mark.parametrize("code", [-1, MINI.entries, 2**31 - 1, -(2**31)])
def test_a_code_out_of_range_is_refused_and_leaves_the_state(model: Path, code: int) -> None:
    decoder, codes = make(model), MINI.random_codes(5)
    first = decoder.decode(codes[:1])
    bad = codes[1:5].copy()
    bad[3, 3] = code
    with pytest.raises(ValueError, match="allowed 0 to 15"):
        decoder.decode(bad)
    np.testing.assert_allclose(
        np.concatenate([first, decoder.decode(codes[1:])]), MINI.reference(codes), atol=1e-6
    )


@pytest.mark.parametrize(
    "codes",
    [
        np.zeros((2, 4), np.int32),
        np.zeros((0, 4), np.int32),
        np.zeros((1, 3), np.int32),
        np.zeros((1, 4), np.int64),
        np.zeros(4, np.int32),
        np.zeros((1, 1, 4), np.int32),
    ],
)
def test_codes_of_a_wrong_shape_or_type(model: Path, codes: NDArray[Any]) -> None:
    with pytest.raises(ValueError, match=r"^codes (has|is) .*allowed"):
        make(model).decode(codes)


@pytest.mark.parametrize(
    ("argument", "value", "text"),
    [
        ("groups", 0, "groups is 0, allowed 1 to 32"),
        ("samples_per_frame", 5000, "samples_per_frame is 5000, allowed 1 to 4096"),
        ("entries", 0, "entries is 0, allowed 1 to 32768"),
        ("threads", 0, "threads is 0, allowed 1 to 64"),
        ("chunks", (), "chunks has 0 sizes, allowed 1 to 8"),
        ("chunks", (4, 1), r"chunks\[1\] is 1, allowed 1 to 32, ascending"),
        ("chunks", (64,), r"chunks\[0\] is 64, allowed 1 to 32"),
        ("chunks", (2,), "the model has no signature decode_2"),
        ("groups", 5, r"input codes of signature decode_1 is int32\[1,1,4\], expected int32\[1,1,5\]"),
        (
            "samples_per_frame",
            31,
            r"output pcm of signature decode_1 is float32\[1,32\], expected float32\[1,31\]",
        ),
    ],
)
def test_arguments_out_of_range(model: Path, argument: str, value: object, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make(model, **{argument: value})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"pcm_name": "audio"}, "signature decode_1 has no output named pcm"),
        ({"state_name": "state"}, "signature decode_1 has no input named state_00"),
        ({"prefix": "dec"}, "the model has no signature decode_1"),
        ({"code_type": 4}, "input codes of signature decode_1 is "),
        ({"codes_rank": 2}, r"input codes of signature decode_1 is int32\[1,4\], expected int32\[1,1,4\]"),
        ({"pcm_extra": 1}, r"output pcm of signature decode_1 is float32\[2,16\], expected float32\[1,32\]"),
        ({"drop_state_output": True}, "signature decode_1 has 3 inputs and 2 outputs"),
    ],
)
def test_a_file_with_another_interface_is_refused_by_name(
    tmp_path: Path, change: dict[str, Any], text: str
) -> None:
    path = Mini(**change).write(tmp_path / "decoder.tflite")
    with pytest.raises(ValueError, match=text) as error:
        make(path, chunks=(1, 4))
    assert str(path) in str(error.value)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none.tflite", tmp_path):
        with pytest.raises(FileNotFoundError, match="does not exist"):
            make(path)


def test_a_thousand_calls_keep_memory_flat(model: Path) -> None:
    decoder, codes = make(model), MINI.random_codes(13)
    for _ in range(50):
        run(decoder, codes, [1, 4, 8])
    before = rss_kib()
    for _ in range(1000):
        run(decoder, codes, [1, 4, 8])
        decoder.reset()
    assert rss_kib() - before < 512


def test_fifty_decoders_keep_memory_and_descriptors_flat(model: Path) -> None:
    for _ in range(10):
        make(model)
    before, fds = rss_kib(), len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        make(model).decode(MINI.random_codes(1))
    assert rss_kib() - before < 4096
    assert len(os.listdir("/proc/self/fd")) == fds


def test_two_decoders_in_two_threads_do_not_mix(model: Path) -> None:
    results: dict[int, NDArray[np.float32]] = {}

    def work(seed: int) -> None:
        results[seed] = run(make(model), MINI.random_codes(400, seed), [1, 4, 8, 4, 8] * 16)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for seed in (1, 2):
        np.testing.assert_allclose(results[seed], MINI.reference(MINI.random_codes(400, seed)), atol=1e-5)


def test_compute_threads_are_as_many_and_where_asked(model: Path) -> None:
    cpu = max(os.sched_getaffinity(0))
    seen: dict[str, object] = {}

    def work() -> None:
        os.sched_setaffinity(0, {cpu})
        before = set(os.listdir("/proc/self/task"))
        decoder = make(model, threads=3)
        decoder.decode(MINI.random_codes(8))
        new = set(os.listdir("/proc/self/task")) - before
        seen["n"] = len(new)
        seen["cpus"] = {c for t in new for c in os.sched_getaffinity(int(t))}

    t = threading.Thread(target=work)
    t.start()
    t.join()
    assert seen == {"n": 2, "cpus": {cpu}}


def test_every_truncation_is_refused(model: Path, tmp_path: Path) -> None:
    data, path = model.read_bytes(), tmp_path / "short.tflite"
    for length in [*range(64), *range(64, len(data), 37), len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(ValueError, match=r"(not a|damaged) TFLite file"):
            make(path)


@pytest.mark.parametrize(
    "content", [b"", b"TFL3", b"\0" * 64, b"\x10\0\0\0TFL3" + b"\xff" * 64, b"GGUF" * 99]
)
def test_garbage_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "garbage.tflite").write_bytes(content)
    with pytest.raises(ValueError, match=r"(not a|damaged) TFLite file"):
        make(tmp_path / "garbage.tflite")


def test_an_operator_that_no_decoder_needs_is_refused(tmp_path: Path) -> None:
    custom, path = 32, tmp_path / "custom.tflite"
    data = bytearray(MINI.build())
    model = tfl.ModelT.InitFromObj(tfl.Model.GetRootAs(data))
    model.operatorCodes[0].builtinCode = model.operatorCodes[0].deprecatedBuiltinCode = custom
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    path.write_bytes(bytes(builder.Output()))
    with pytest.raises(ValueError, match="operator 32 is not one that a decoder may use"):
        make(path)


def test_an_output_larger_than_declared_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wide.tflite"
    model = tfl.ModelT.InitFromObj(tfl.Model.GetRootAs(bytearray(MINI.build())))
    graph = model.subgraphs[1]
    names = {t.name: i for i, t in enumerate(graph.tensors)}
    # The new frame number is made from all the frame numbers: [1, 1] becomes [4, 1].
    graph.operators[-1].inputs = [graph.inputs[1], names[b"steps"]]
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    path.write_bytes(bytes(builder.Output()))
    with pytest.raises(
        ValueError, match=r"output state_01 .*declared float32\[1,1\] but computed float32\[4,1\]"
    ):
        make(path)


DAMAGE = """
import json, random, sys
sys.path[:] = json.loads(sys.argv[1])
import numpy as np
from cython_kernels.litert import LiteRtDecoder
path, shape = sys.argv[2], json.loads(sys.argv[3])
data = open(path, "rb").read()
loaded = refused = 0
for seed in range(1500):
    rng, damaged = random.Random(seed), bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(data) // 4) * 4
        value = rng.choice([0, 1, 2, 4, 8, 64, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, rng.randrange(1 << 32)])
        damaged[at:at + 4] = value.to_bytes(4, "little")
    with open(path, "wb") as f:
        f.write(damaged)
    try:
        decoder = LiteRtDecoder(path, **shape)
        for n in decoder.sizes:
            decoder.decode(np.zeros((n, decoder.groups), np.int32))
        loaded += 1
    except (ValueError, RuntimeError):
        refused += 1
print(loaded, refused)
"""


def test_random_damage_never_crashes(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "damaged.tflite"
    path.write_bytes(model.read_bytes())
    argv = [sys.executable, "-c", DAMAGE, json.dumps(sys.path), str(path), json.dumps(SHAPE)]
    child = subprocess.run(argv, capture_output=True, text=True, timeout=150, check=False)
    assert child.returncode == 0, child.stderr[-2000:]
    loaded, refused = map(int, child.stdout.split())
    assert loaded + refused == 1500 and loaded > 100 and refused > 500
