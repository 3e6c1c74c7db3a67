"""The code predictor against a numpy forward pass, its limits and its refusals."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import tiny_gguf as tiny
from test_llama import DAMAGE

from cython_kernels.llama import LlamaTalker
from cython_kernels.predictor import GgmlPredictor

SHAPE = tiny.Shape()
MODEL = tiny.predictor(SHAPE)
PROJECTED = tiny.Shape(hidden=64, input_hidden=96, groups=16, layers=3, heads=6, kv_heads=2, head_dim=32)


def _rows(shape: tiny.Shape, seed: int = 3) -> tiny.F32:
    return np.random.default_rng(seed).standard_normal((shape.groups, shape.input_hidden)).astype(np.float32)


def _frame(predictor: GgmlPredictor, rows: tiny.F32) -> tiny.F32:
    """Logits [groups - 1, vocab]; rows as predictor_outputs takes them."""
    logits = [predictor.begin(rows[0], rows[1])]
    logits += [predictor.next(g, rows[g + 1]) for g in range(1, predictor.groups - 1)]
    return np.stack(logits)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_predictor(tmp_path_factory.mktemp("predictor") / "predictor.gguf", MODEL)


@pytest.fixture(scope="module")
def predictor(path: Path) -> GgmlPredictor:
    return GgmlPredictor(path, threads=1)


def test_sizes_come_from_the_file(predictor: GgmlPredictor) -> None:
    assert (predictor.groups, predictor.vocab, predictor.input_hidden) == (6, 96, 64)
    assert (predictor.hidden_size, predictor.layers) == (64, 2)
    assert predictor.weight_bytes >= sum(v.nbytes for k, v in MODEL.tensors.items() if v.ndim == 2)


@pytest.mark.parametrize(
    "shape, threads",
    [
        (SHAPE, 1),
        (SHAPE, 2),
        (SHAPE, 3),
        (PROJECTED, 1),
        (PROJECTED, 2),
        (tiny.Shape(groups=2), 1),
        (tiny.Shape(groups=32, layers=1), 1),
        (tiny.Shape(heads=4, kv_heads=4, head_dim=16, theta=1e4), 1),
        (
            tiny.Shape(
                hidden=40, ffn=72, input_hidden=40, heads=3, kv_heads=1, head_dim=10, vocab=33, eps=1e-3
            ),
            1,
        ),
    ],
)
def test_frames_agree_with_numpy(tmp_path: Path, shape: tiny.Shape, threads: int) -> None:
    model = tiny.predictor(shape, seed=5)
    predictor = GgmlPredictor(tiny.write_predictor(tmp_path / "p.gguf", model), threads=threads)
    for seed in (1, 2):  # the second frame must not see the first one's positions
        rows = _rows(shape, seed)
        np.testing.assert_allclose(
            _frame(predictor, rows), tiny.predictor_outputs(model, rows), atol=1e-4, rtol=0
        )


def test_same_frame_same_bits_whatever_ran_between(predictor: GgmlPredictor) -> None:
    rows = _rows(SHAPE)
    first = _frame(predictor, rows)
    _frame(predictor, _rows(SHAPE, 9))
    predictor.begin(rows[3], rows[4])  # a frame that was given up
    assert np.array_equal(_frame(predictor, rows), first)


def test_results_are_copies(predictor: GgmlPredictor) -> None:
    rows = _rows(SHAPE)
    kept = predictor.begin(rows[0], rows[1])
    before = kept.copy()
    predictor.next(1, rows[2])
    assert np.array_equal(kept, before)


@pytest.mark.parametrize(
    "precision, floor", [("f16", 0.9999), ("bf16", 0.999), ("q8_0", 0.999), ("q4_0", 0.9)]
)
def test_reduced_precision_stays_close(tmp_path: Path, precision: str, floor: float) -> None:
    reduced = GgmlPredictor(tiny.write_predictor(tmp_path / "p.gguf", MODEL, precision), threads=1)
    rows = _rows(SHAPE)
    expected = tiny.predictor_outputs(MODEL, rows)
    for got, want in zip(_frame(reduced, rows), expected, strict=True):
        assert np.corrcoef(got, want)[0, 1] > floor


def test_q4_k_is_closer_than_q4_0(tmp_path: Path) -> None:
    shape = tiny.Shape(hidden=256, input_hidden=256, ffn=512, heads=8)
    model, rows = tiny.predictor(shape), _rows(shape)
    expected = tiny.predictor_outputs(model, rows)

    def error(precision: str) -> float:
        part = GgmlPredictor(tiny.write_predictor(tmp_path / "p.gguf", model, precision), threads=1)
        return float(np.square(_frame(part, rows) - expected).sum())

    assert error("q4_K") < 0.9 * error("q4_0")
    assert error("q4_K") < 0.2 * np.square(expected).sum()


def test_q4_0_is_repacked_where_the_cpu_can(tmp_path: Path, predictor: GgmlPredictor) -> None:
    flags = Path("/proc/cpuinfo").read_text()
    capable = " avx2" in flags or " asimddp" in flags
    q4 = GgmlPredictor(tiny.write_predictor(tmp_path / "p.gguf", MODEL, "q4_0"), threads=1)
    assert (q4.repacked_bytes > 0.8 * q4.weight_bytes) == capable
    assert predictor.repacked_bytes == 0


WIDE = tiny.Shape(
    hidden=128, input_hidden=64, groups=4, layers=2, heads=4, kv_heads=2, head_dim=32, ffn=192, vocab=80
)


@pytest.mark.parametrize(
    "shape", [WIDE, tiny.Shape(ffn=3072, hidden=1024, input_hidden=1024, layers=1, groups=3)]
)
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("precision", ["q4_0", "q8_0"])
def test_own_products_are_those_of_ggml(
    tmp_path: Path, shape: tiny.Shape, threads: int, precision: str
) -> None:
    """Both round activations to 8 bits, in the same blocks; ggml also rounds the scales to half floats."""
    file = tiny.write_predictor(tmp_path / "p.gguf", tiny.predictor(shape, seed=7), precision)
    rows = _rows(shape)
    ours = _frame(GgmlPredictor(file, threads=threads), rows)
    theirs = _frame(GgmlPredictor(file, threads=threads, own_products=False), rows)
    assert np.square(theirs).sum() / np.square(ours - theirs).sum() > 10**2.5
    assert np.array_equal(ours, _frame(GgmlPredictor(file, threads=1), rows))


@pytest.mark.parametrize("precision", ["q4_0", "q8_0"])
def test_quantised_inputs_that_are_not_finite_are_told(tmp_path: Path, precision: str) -> None:
    predictor = GgmlPredictor(
        tiny.write_predictor(tmp_path / "p.gguf", tiny.predictor(WIDE), precision), threads=1
    )
    rows = _rows(WIDE)
    good = predictor.begin(rows[0], rows[1])
    for value in (np.inf, -np.inf, np.nan):
        with pytest.raises(RuntimeError, match="not finite"):
            predictor.begin(np.where(np.arange(64) == 40, value, rows[0]).astype(np.float32), rows[1])
    assert np.array_equal(predictor.begin(rows[0], rows[1]), good)


def test_f16_survives_activations_beyond_its_range(tmp_path: Path) -> None:
    large = MODEL
    for i in range(SHAPE.layers):
        for name in ("ffn_gate", "ffn_up"):
            key = f"blk.{i}.{name}.weight"
            large = tiny.with_tensor(large, key, (MODEL.tensors[key] * 150).astype(np.float32))
        key = f"blk.{i}.ffn_down.weight"
        large = tiny.with_tensor(
            large, key, (MODEL.tensors[key] / 150**2).astype(np.float16).astype(np.float32)
        )
    rows = _rows(SHAPE)
    f16 = GgmlPredictor(tiny.write_predictor(tmp_path / "p.gguf", large, "f16"), threads=1)
    for got, want in zip(_frame(f16, rows), tiny.predictor_outputs(large, rows), strict=True):
        assert np.corrcoef(got, want)[0, 1] > 0.999


@pytest.mark.parametrize("calls", [[1], [0, 2], [0, 1, 1], [0, 0], [0, 1, 2, 3, 4, 5], [0, -1]])
def test_rows_out_of_order(path: Path, calls: list[int]) -> None:
    predictor = GgmlPredictor(path, threads=1)
    rows = _rows(SHAPE)
    if calls[0] == 0:
        predictor.begin(rows[0], rows[1])
        calls = calls[1:]
    for g in calls[:-1]:
        predictor.next(g, rows[g])
    with pytest.raises(ValueError, match=f"group is {calls[-1]}: rows of codebooks 1 to 4 follow begin"):
        predictor.next(calls[-1], rows[0])


@pytest.mark.parametrize("name", ["hidden", "row0"])
def test_wrong_row_shape(predictor: GgmlPredictor, name: str) -> None:
    rows = {"hidden": np.zeros(64, np.float32), "row0": np.zeros(64, np.float32)} | {
        name: np.zeros(65, np.float32)
    }
    with pytest.raises(ValueError, match=rf"{name} has shape \(65,\), allowed is \[64\]"):
        predictor.begin(**rows)


def test_nan_fails_the_frame_and_the_next_one_works(predictor: GgmlPredictor) -> None:
    rows = _rows(SHAPE)
    good = _frame(predictor, rows)
    with pytest.raises(RuntimeError, match="not finite"):
        predictor.begin(np.full(64, np.nan, np.float32), rows[1])
    with pytest.raises(ValueError, match="group is 1"):
        predictor.next(1, rows[2])
    assert np.array_equal(_frame(predictor, rows), good)


@pytest.mark.parametrize("name", sorted(tiny.predictor(PROJECTED).tensors))
def test_each_missing_tensor_is_named(tmp_path: Path, name: str) -> None:
    model = tiny.without(tiny.predictor(PROJECTED), name)
    with pytest.raises(ValueError, match=f"tensor {name} is missing"):
        GgmlPredictor(tiny.write_predictor(tmp_path / "p.gguf", model))


@pytest.mark.parametrize("name", ["blk.0.attn_k.weight", "blk.1.ffn_up.weight", "head.3.weight"])
def test_wrong_shape_is_named(tmp_path: Path, name: str) -> None:
    rows, columns = MODEL.tensors[name].shape
    wrong = tiny.with_tensor(MODEL, name, np.zeros((rows + 1, columns), np.float32))
    with pytest.raises(
        ValueError, match=rf"{name} has shape \[{rows + 1}, {columns}\], expected \[{rows}, {columns}\]"
    ):
        GgmlPredictor(tiny.write_predictor(tmp_path / "p.gguf", wrong))


@pytest.mark.parametrize("name", ["head.6.weight", "input_proj.weight", "blk.2.attn_norm.weight"])
def test_tensor_too_many_is_named(tmp_path: Path, name: str) -> None:
    model = tiny.with_tensor(MODEL, name, np.zeros((64, 64), np.float32))
    with pytest.raises(ValueError, match=f"tensor {name} is not part of such a model"):
        GgmlPredictor(tiny.write_predictor(tmp_path / "p.gguf", model))


def test_wrong_vector_length_and_type_are_named(tmp_path: Path) -> None:
    short = tiny.with_tensor(MODEL, "blk.0.attn_norm.weight", np.ones(63, np.float32))
    with pytest.raises(ValueError, match=r"blk.0.attn_norm.weight has 63 values, expected 64"):
        GgmlPredictor(tiny.write_predictor(tmp_path / "a.gguf", short))
    half = tiny.with_tensor(MODEL, "output_norm.weight", np.ones(64, np.float16))
    with pytest.raises(ValueError, match=r"output_norm.weight has type f16, expected f32"):
        GgmlPredictor(tiny.write_predictor(tmp_path / "b.gguf", half))


def test_mixed_types_of_joined_tensors_are_named(tmp_path: Path) -> None:
    mixed = tiny.with_tensor(
        MODEL, "blk.1.attn_v.weight", MODEL.tensors["blk.1.attn_v.weight"].astype(np.float16)
    )
    with pytest.raises(
        ValueError, match=r"blk.1.attn_q.weight and blk.1.attn_v.weight have different types, f32 and f16"
    ):
        GgmlPredictor(tiny.write_predictor(tmp_path / "p.gguf", mixed))


@pytest.mark.parametrize(
    "key, value, message",
    [
        ("code_groups", 1, "code_groups is 1, allowed is 2..32"),
        ("code_groups", 33, "code_groups is 33, allowed is 2..32"),
        ("code_groups", 7, "head.6.weight is missing"),
        ("attention.head_count_kv", 0, "head_count_kv is 0, allowed is 1..4"),
        ("attention.head_count_kv", 3, "head_count is 4, not a multiple of head_count_kv 3"),
        ("attention.key_length", 33, "key_length is 33, must be even"),
        ("attention.layer_norm_rms_epsilon", 5.0, "epsilon is 5, allowed is 0..1"),
        ("rope.freq_base", "1e6", "freq_base is not a float"),
        ("vocab_size", "96", "vocab_size is not an integer"),
        ("input_embedding_length", 96, "input_proj.weight is missing"),
    ],
)
def test_bad_metadata_is_named(tmp_path: Path, key: str, value: str | int | float, message: str) -> None:
    file = tiny.write_predictor(tmp_path / "p.gguf", MODEL, keys={f"qwen3tts-predictor.{key}": value})
    with pytest.raises(ValueError, match=message):
        GgmlPredictor(file)


def test_other_architecture(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r'general.architecture is "qwen3"'):
        GgmlPredictor(tiny.write_talker(tmp_path / "t.gguf", tiny.talker()))


def test_nan_weights_are_refused_at_creation(tmp_path: Path) -> None:
    broken = MODEL.tensors["head.4.weight"].copy()
    broken[5, 5] = np.nan
    file = tiny.write_predictor(tmp_path / "p.gguf", tiny.with_tensor(MODEL, "head.4.weight", broken))
    with pytest.raises(ValueError, match="not finite"):
        GgmlPredictor(file)


def test_missing_file_and_bad_threads(path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"predictor file 'nowhere.gguf'"):
        GgmlPredictor("nowhere.gguf")
    with pytest.raises(ValueError, match="threads is 0, allowed is an integer from 1 to 64"):
        GgmlPredictor(path, threads=0)


def test_damaged_files_raise_and_print_nothing(path: Path, tmp_path: Path) -> None:
    script = DAMAGE.format(module="predictor", cls="GgmlPredictor", header=2000)
    done = subprocess.run(
        [sys.executable, "-c", script, path, tmp_path / "damaged.gguf", "2"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[-1]) >= 100
    assert done.stderr == ""


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_thousand_frames_keep_memory_flat(predictor: GgmlPredictor) -> None:
    rows = _rows(SHAPE)
    for _ in range(100):
        _frame(predictor, rows)
    before = _resident()
    for _ in range(1000):
        _frame(predictor, rows)
    assert _resident() - before < 256 * 1024


def test_creation_frees_what_it_took(path: Path, tmp_path: Path) -> None:
    bad = tiny.write_predictor(tmp_path / "bad.gguf", tiny.without(MODEL, "head.5.weight"))

    def cycle(n: int) -> None:
        for _ in range(n):
            GgmlPredictor(path, threads=1)
            with pytest.raises(ValueError, match=r"head.5.weight"):
                GgmlPredictor(bad, threads=1)

    cycle(20)
    before, files = _resident(), len(os.listdir("/proc/self/fd"))
    cycle(100)
    assert _resident() - before < 2 * 1024 * 1024
    assert len(os.listdir("/proc/self/fd")) == files


def _tasks() -> set[str]:
    return set(os.listdir("/proc/self/task"))


def _allowed(task: str) -> str:
    status = Path(f"/proc/self/task/{task}/status").read_text()
    return next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list"))


def test_talker_and_predictor_of_one_thread_share_pinned_workers(path: Path, tmp_path: Path) -> None:
    talker_path = tiny.write_talker(tmp_path / "t.gguf", tiny.talker())
    cpu = min(os.sched_getaffinity(0))
    found: list[tuple[int, set[str]]] = []

    def generator() -> None:
        os.sched_setaffinity(0, {cpu})
        before = _tasks()
        talker = LlamaTalker(talker_path, max_context=64, threads=2)
        predictor = GgmlPredictor(path, threads=2)
        rows = _rows(SHAPE)
        talker.feed(rows[:1])
        _frame(predictor, rows)
        workers = _tasks() - before
        found.append((len(workers), {_allowed(t) for t in workers}))

    thread = threading.Thread(target=generator)
    thread.start()
    thread.join()
    assert found == [(1, {str(cpu)})]
