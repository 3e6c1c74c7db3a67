"""The talker against a numpy forward pass, its limits and its refusals."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import llama_cpp
import numpy as np
import pytest
import tiny_gguf as tiny

from cython_kernels.isa import own_isa
from cython_kernels.llama import LlamaTalker

SHAPE = tiny.Shape()
MODEL = tiny.talker(SHAPE)
ROWS = np.random.default_rng(1).standard_normal((40, SHAPE.hidden)).astype(np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_talker(tmp_path_factory.mktemp("talker") / "talker.gguf", MODEL)


@pytest.fixture(scope="module")
def talker(path: Path) -> LlamaTalker:
    return LlamaTalker(path, max_context=200, threads=1)


def test_sizes_come_from_the_file(talker: LlamaTalker) -> None:
    assert (talker.hidden_size, talker.vocab, talker.max_context) == (SHAPE.hidden, SHAPE.vocab, 200)


def test_prompt_and_twenty_steps_agree_with_numpy(talker: LlamaTalker) -> None:
    hidden, logits = tiny.talker_outputs(MODEL, ROWS)
    talker.reset()
    talker.feed(ROWS[:20])
    for i in range(19, 40):
        if i > 19:
            talker.feed(ROWS[i : i + 1])
        assert talker.n_past == i + 1
        np.testing.assert_allclose(talker.hidden(), hidden[i], atol=1e-4, rtol=0)
        np.testing.assert_allclose(talker.logits(), logits[i], atol=1e-4, rtol=0)


@pytest.mark.parametrize("threads, batch", [(2, None), (1, 2), (2, 1)])
def test_thread_counts_give_the_same_result(path: Path, threads: int, batch: int | None) -> None:
    talker = LlamaTalker(path, max_context=64, threads=threads, threads_batch=batch)
    assert (talker.threads, talker.threads_batch) == (threads, batch or threads)
    talker.feed(ROWS[:9])
    talker.feed(ROWS[9:10])
    np.testing.assert_allclose(
        talker.logits(), tiny.talker_outputs(MODEL, ROWS[:10])[1][-1], atol=1e-4, rtol=0
    )


def _anonymous() -> int:
    """Bytes of anonymous memory of this process."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) * 1024


def test_positions_take_memory_when_they_are_used_and_not_after_a_reset(path: Path) -> None:
    context, before = 60_000, _anonymous()
    talker = LlamaTalker(path, max_context=context, threads=1)
    cache = context * 2 * SHAPE.layers * SHAPE.kv_heads * SHAPE.head_dim * 4
    assert cache > 20 << 20
    made = _anonymous()
    talker.feed(ROWS)
    first = talker.logits()
    assert made - before < cache / 2
    talker.reset()
    assert _anonymous() - before < cache / 2
    talker.feed(ROWS)
    assert np.array_equal(talker.logits(), first)


def test_prompt_longer_than_one_batch(talker: LlamaTalker) -> None:
    rows = np.random.default_rng(2).standard_normal((199, SHAPE.hidden)).astype(np.float32)
    talker.reset()
    talker.feed(rows)
    np.testing.assert_allclose(talker.logits(), tiny.talker_outputs(MODEL, rows)[1][-1], atol=1e-4, rtol=0)


def test_reset_gives_the_same_bits_again(talker: LlamaTalker) -> None:
    talker.reset()
    talker.feed(ROWS[:9])
    first = talker.logits()
    talker.feed(ROWS[9:30])
    talker.reset()
    assert talker.n_past == 0
    talker.feed(ROWS[:9])
    assert np.array_equal(talker.logits(), first)


def test_results_are_copies(talker: LlamaTalker) -> None:
    talker.reset()
    talker.feed(ROWS[:3])
    kept = talker.logits()
    before = kept.copy()
    talker.feed(ROWS[3:4])
    assert np.array_equal(kept, before) and not np.array_equal(kept, talker.logits())


def test_full_context_is_refused_and_nothing_is_appended(talker: LlamaTalker) -> None:
    talker.reset()
    talker.feed(np.zeros((199, SHAPE.hidden), np.float32))
    with pytest.raises(ValueError, match="max_context 200"):
        talker.feed(ROWS[:2])
    assert talker.n_past == 199
    talker.feed(ROWS[:1])
    assert talker.n_past == 200


def test_nan_fails_the_step_and_reset_recovers(talker: LlamaTalker) -> None:
    talker.reset()
    talker.feed(ROWS[:9])
    good = talker.logits()
    bad = ROWS[:30].copy()
    bad[4, 7] = np.nan
    talker.reset()
    with pytest.raises(RuntimeError, match="not finite"):
        talker.feed(bad)
    assert talker.n_past == 0
    talker.reset()
    talker.feed(ROWS[:9])
    assert np.array_equal(talker.logits(), good)


def test_reading_before_feeding_is_an_error(talker: LlamaTalker) -> None:
    talker.reset()
    with pytest.raises(RuntimeError, match="nothing was fed"):
        talker.logits()


@pytest.mark.parametrize(
    "rows", [np.zeros((2, SHAPE.hidden + 1)), np.zeros((0, SHAPE.hidden)), np.zeros(SHAPE.hidden)]
)
def test_wrong_row_shape(talker: LlamaTalker, rows: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"rows has shape .* allowed is \[n, 64\]"):
        talker.feed(rows.astype(np.float32))


@pytest.mark.parametrize("precision, floor", [("f16", 0.9999), ("q8_0", 0.999), ("q4_0", 0.9)])
def test_reduced_precision_stays_close(tmp_path: Path, precision: str, floor: float) -> None:
    reduced = LlamaTalker(tiny.write_talker(tmp_path / "t.gguf", MODEL, precision), max_context=64, threads=1)
    reduced.feed(ROWS[:24])
    expected = tiny.talker_outputs(MODEL, ROWS[:24])[1][-1]
    assert np.corrcoef(reduced.logits(), expected)[0, 1] > floor


def test_without_mmap(path: Path, talker: LlamaTalker) -> None:
    other = LlamaTalker(path, max_context=64, threads=1, use_mmap=False)
    other.feed(ROWS[:9])
    talker.reset()
    talker.feed(ROWS[:9])
    np.testing.assert_allclose(other.logits(), talker.logits(), atol=1e-5)


@pytest.mark.parametrize("name", sorted(MODEL.tensors))
def test_each_missing_tensor_is_named(tmp_path: Path, name: str) -> None:
    file = tiny.write_talker(tmp_path / "t.gguf", tiny.without(MODEL, name))
    with pytest.raises(ValueError, match=f"tensor {name} is missing"):
        LlamaTalker(file)


def test_tensor_too_many_is_refused(tmp_path: Path) -> None:
    model = tiny.with_tensor(MODEL, "blk.2.attn_norm.weight", np.zeros(64, np.float32))
    with pytest.raises(ValueError, match=r"holds 26 tensors, a talker of 2 layers has 25"):
        LlamaTalker(tiny.write_talker(tmp_path / "t.gguf", model))


def test_wrong_shape_is_named(tmp_path: Path) -> None:
    wrong = tiny.with_tensor(MODEL, "blk.1.ffn_down.weight", np.zeros((64, 96), np.float32))
    with pytest.raises(ValueError, match=r"blk.1.ffn_down.weight has shape \[64, 96\], expected \[64, 128\]"):
        LlamaTalker(tiny.write_talker(tmp_path / "t.gguf", wrong))


@pytest.mark.parametrize(
    "key, value, message",
    [
        ("tokenizer.ggml.model", "gpt2", 'tokenizer.ggml.model is "gpt2", expected "none"'),
        ("qwen3.attention.head_count", 0, r"head_count is 0, allowed is 1..256"),
        ("qwen3.attention.head_count_kv", 3, "no multiple of head_count_kv 3"),
        ("qwen3.vocab_size", 95, r"token_embd.weight has shape \[96, 64\], expected \[95, 64\]"),
        ("qwen3.block_count", 3, "blk.2.attn_norm.weight is missing"),
        ("qwen3.embedding_length", "64", "embedding_length is not an integer"),
        ("qwen3.attention.value_length", 16, "value_length is 16, allowed is 32..32"),
        ("qwen3.rope.dimension_count", 16, "rope.dimension_count is 16, allowed is 32..32"),
        ("qwen3.rope.scaling.factor", 4.0, "key qwen3.rope.scaling.factor is none of a talker's"),
        ("qwen3.expert_count", 4, "key qwen3.expert_count is none of a talker's"),
    ],
)
def test_bad_metadata_is_named(tmp_path: Path, key: str, value: str | int, message: str) -> None:
    file = tiny.write_talker(tmp_path / "t.gguf", MODEL, keys={key: value})
    with pytest.raises(ValueError, match=message):
        LlamaTalker(file)


@pytest.mark.parametrize("precision", ["f32", "q4_0"])
@pytest.mark.parametrize("name", [name for name in MODEL.tensors if "_norm" in name and ".1." not in name])
def test_norms_in_half_floats_are_refused(tmp_path: Path, precision: str, name: str) -> None:
    """libllama aborts the process on them."""
    half = tiny.with_tensor(MODEL, name, MODEL.tensors[name].astype(np.float16))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=f"tensor {name} has type f16, expected f32"):
        LlamaTalker(tiny.write_talker(tmp_path / "t.gguf", half, precision), max_context=16, threads=1)


def test_the_dimensions_that_are_rotated_may_be_given(tmp_path: Path) -> None:
    keys = {"qwen3.rope.dimension_count": SHAPE.head_dim}
    LlamaTalker(tiny.write_talker(tmp_path / "t.gguf", MODEL, keys=keys), max_context=16, threads=1)


def test_other_architecture(tmp_path: Path) -> None:
    file = tiny.write_talker(tmp_path / "t.gguf", MODEL, arch="llama")
    with pytest.raises(ValueError, match=r'general.architecture is "llama", expected "qwen3"'):
        LlamaTalker(file)


def test_libllama_message_is_in_the_error(tmp_path: Path) -> None:
    file = tiny.write_talker(tmp_path / "t.gguf", MODEL, keys={"qwen3.context_length": "4096"})
    with pytest.raises(
        ValueError, match=r"libllama refuses the model: .*qwen3.context_length has wrong type"
    ):
        LlamaTalker(file)


def test_nan_weights_are_refused_at_creation(tmp_path: Path) -> None:
    broken = MODEL.tensors["output_norm.weight"].copy()
    broken[0] = np.nan
    file = tiny.write_talker(tmp_path / "t.gguf", tiny.with_tensor(MODEL, "output_norm.weight", broken))
    with pytest.raises(ValueError, match="not finite"):
        LlamaTalker(file)


def test_missing_file() -> None:
    with pytest.raises(FileNotFoundError, match=r"talker file 'nowhere.gguf'"):
        LlamaTalker("nowhere.gguf")


@pytest.mark.parametrize(
    "name, value",
    [("max_context", 0), ("threads", 0), ("threads", 65), ("threads_batch", 0), ("threads", True)],
)
def test_parameters_out_of_range(path: Path, name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{name} is {value}, allowed is an integer from 1 to"):
        LlamaTalker(path, **{name: value})  # type: ignore[arg-type]


DAMAGE = """
import sys, random
from pathlib import Path
from cython_kernels.{module} import {cls} as Model
whole, scratch = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2])
rng, refused = random.Random(int(sys.argv[3])), 0
for i in range(120):
    data = bytearray(whole)
    if i < 30:
        data = data[: rng.randrange(len(data))]
    elif i < 40:
        data = bytearray(rng.randbytes(len(data) // 4))
    elif i < 50:
        data = bytearray(b"GGUF" + rng.randbytes(4000))
    else:
        for _ in range(4):
            data[rng.randrange(8, {header})] = rng.randrange(256)
    scratch.write_bytes(data)
    try:
        Model(scratch, threads=1)
    except (ValueError, MemoryError):
        refused += 1
print("refused", refused)
"""


def test_damaged_files_raise_and_print_nothing(path: Path, tmp_path: Path) -> None:
    script = DAMAGE.format(module="llama", cls="LlamaTalker", header=2000)
    done = subprocess.run(
        [sys.executable, "-c", script, path, tmp_path / "damaged.gguf", "1"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[-1]) >= 100
    assert done.stderr == ""


def test_feed_releases_the_gil(talker: LlamaTalker) -> None:
    rows = np.zeros((199, SHAPE.hidden), np.float32)
    ticks, stop = [], threading.Event()

    def tick() -> None:
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.0005)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(60)  # only a released GIL lets the other thread in
    thread = threading.Thread(target=tick)
    thread.start()
    try:
        talker.reset()
        start = time.perf_counter()
        talker.feed(rows)
        end = time.perf_counter()
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()
    assert any(start < t < end for t in ticks)


def test_a_thousand_steps_keep_memory_flat(talker: LlamaTalker) -> None:
    def utterance() -> None:
        talker.reset()
        talker.feed(ROWS[:20])
        for _ in range(100):
            talker.feed(ROWS[:1])

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    utterance()
    before = resident()
    for _ in range(10):
        utterance()
    assert resident() - before < 256 * 1024


def test_sequence_of_creations_leaves_no_descriptors(path: Path) -> None:
    LlamaTalker(path, max_context=32, threads=1)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        LlamaTalker(path, max_context=32, threads=1)
    assert len(os.listdir("/proc/self/fd")) == before


FAST = own_isa() == "avx512-vnni"
WIDE = tiny.Shape(hidden=128, layers=3, heads=6, kv_heads=2, head_dim=64, ffn=192, vocab=96)
LONG = tiny.Shape(hidden=64, layers=1, heads=4, kv_heads=2, head_dim=160, ffn=128, vocab=64)


def _pair(tmp_path: Path, precision: str, shape: tiny.Shape, threads: int) -> tuple[LlamaTalker, LlamaTalker]:
    file = tiny.write_talker(tmp_path / "t.gguf", tiny.talker(shape, seed=3), precision)
    own, other = (LlamaTalker(file, max_context=240, threads=threads, own_products=x) for x in (True, False))
    assert (own.own_products, other.own_products) == (FAST, False)
    return own, other


def _rows(shape: tiny.Shape, n: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal((n, shape.hidden)).astype(np.float32)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("shape, n", [(WIDE, 30), (LONG, 240)], ids=["three heads share keys", "long"])
@pytest.mark.parametrize("precision", ["q4_0", "q8_0"])
def test_own_products_are_as_good_as_those_of_libllama(
    tmp_path: Path, precision: str, shape: tiny.Shape, n: int, threads: int
) -> None:
    """Both round activations to 8 bits, in the same blocks; libllama's attention also rounds its sums."""
    own, other = _pair(tmp_path, precision, shape, threads)
    rows = _rows(shape, n)
    hidden, logits = tiny.talker_outputs(tiny.quantised(tiny.talker(shape, seed=3), precision), rows)
    noise = {own: [0.0, 0.0], other: [0.0, 0.0]}
    # Rows go by 4, 2 and 1, then one by one.
    ends = [n - 19, n - 12, *range(n - 11, n + 1)]
    for first, end in zip([0, *ends], ends, strict=False):
        for talker, sums in noise.items():
            talker.feed(rows[first:end])
            sums[0] += np.square(talker.hidden() - hidden[end - 1]).sum()
            sums[1] += np.square(talker.logits() - logits[end - 1]).sum()
    for i, want in enumerate((hidden, logits)):
        signal = np.square(want[np.array(ends) - 1]).sum()
        assert 10 * np.log10(signal / noise[own][i]) > 30
        assert noise[own][i] < 1.3 * noise[other][i]


@pytest.mark.parametrize("precision", ["q4_0", "q8_0"])
def test_own_products_give_the_same_bits_in_any_groups_and_threads(tmp_path: Path, precision: str) -> None:
    rows, results = _rows(WIDE, 31), []
    for threads, parts in ((1, [31]), (3, [31]), (2, [5, 6, 7, 13]), (1, [1] * 31)):
        talker = _pair(tmp_path, precision, WIDE, threads)[0]
        done = 0
        for part in parts:
            talker.feed(rows[done : done + part])
            done += part
        results.append(np.concatenate([talker.hidden(), talker.logits()]))
    for result in results[1:]:
        if FAST:
            np.testing.assert_array_equal(result, results[0])
        else:
            assert np.square(result - results[0]).sum() < np.square(result).sum() / 300


def test_own_products_tell_what_is_not_finite_and_go_on(tmp_path: Path) -> None:
    talker = _pair(tmp_path, "q4_0", WIDE, 2)[0]
    rows = _rows(WIDE, 12)
    talker.feed(rows[:2])
    talker.feed(rows[2:])
    good = talker.logits()
    for value in (np.nan, np.inf, -np.inf):
        bad = rows.copy()
        bad[3, 100] = value
        talker.reset()
        talker.feed(rows[:2])
        with pytest.raises(RuntimeError, match="not finite"):
            talker.feed(bad[2:])
        assert talker.n_past == 2
        talker.feed(rows[2:])
        np.testing.assert_array_equal(talker.logits(), good)


@pytest.mark.parametrize(
    "precision, shape", [("f16", WIDE), ("q8_0", tiny.Shape(vocab=100)), ("q4_0", tiny.Shape(head_dim=16))]
)
def test_what_own_products_cannot_do_is_left_to_libllama(
    tmp_path: Path, precision: str, shape: tiny.Shape
) -> None:
    file = tiny.write_talker(tmp_path / "t.gguf", tiny.talker(shape), precision)
    talker = LlamaTalker(file, max_context=64, threads=1)
    assert not talker.own_products
    talker.feed(_rows(shape, 3))


def test_layers_on_a_gpu_that_is_none_change_nothing(tmp_path: Path) -> None:
    file = tiny.write_talker(tmp_path / "t.gguf", tiny.talker(WIDE), "q4_0")
    talker = LlamaTalker(file, max_context=64, threads=1, n_gpu_layers=99)
    assert talker.own_products == (FAST and not llama_cpp.llama_supports_gpu_offload())


def test_results_after_a_failed_step_are_not_given(tmp_path: Path) -> None:
    for own in _pair(tmp_path, "q4_0", WIDE, 1):
        rows = _rows(WIDE, 3)
        own.feed(rows)
        with pytest.raises(RuntimeError, match="not finite"):
            own.feed(np.full_like(rows, np.nan))
        for read in (own.hidden, own.logits):
            with pytest.raises(RuntimeError, match="the last step failed"):
                read()
        own.reset()
        own.feed(rows)
        assert np.isfinite(own.logits()).all()


def test_own_products_take_memory_for_the_positions_in_use(tmp_path: Path) -> None:
    file = tiny.write_talker(tmp_path / "t.gguf", tiny.talker(WIDE), "q4_0")
    context, before = 60_000, _anonymous()
    talker = LlamaTalker(file, max_context=context, threads=1)
    cache = context * 2 * WIDE.layers * WIDE.kv_heads * WIDE.head_dim * 2
    assert cache > 80 << 20
    assert _anonymous() - before < cache / 4
    talker.feed(_rows(WIDE, 600))
    used = _anonymous()
    talker.reset()
    assert _anonymous() < used - 0.9 * 600 * cache / context
