"""The safetensors reader believes nothing; the writer writes what it reads."""

from __future__ import annotations

import contextlib
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from edgettsd_tools.safetensors_writer import Entry, write_safetensors
from hypothesis import given, settings
from hypothesis import strategies as st

from edgettsd.errors import ModelInvalidError
from edgettsd.models.safetensors import SafetensorsFile

VALUES = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.array([1.5, -2.0], np.float32),
    "c": np.zeros((0, 4), np.float32),
}


def _write(path: Path, dtype: str = "F32") -> Path:
    entries = [Entry(name, dtype, value.shape) for name, value in VALUES.items()]
    write_safetensors(path, entries, lambda entry: [VALUES[entry.name]], metadata={"format": "pt"})
    return path


def _file(path: Path, header: Any, data: bytes = bytes(24)) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


@pytest.mark.parametrize("dtype, view", [("F32", "<f4"), ("F16", "<f2"), ("BF16", "<u2")])
def test_what_is_written_is_read(tmp_path: Path, dtype: str, view: str) -> None:
    with SafetensorsFile(_write(tmp_path / "x", dtype)) as tensors:
        assert list(tensors) == ["a", "b", "c"] and len(tensors) == 3
        for name, expected in VALUES.items():
            found = tensors[name]
            assert found.dtype == np.dtype(view) and found.shape == expected.shape
            if dtype == "BF16":
                found = (found.astype(np.uint32) << 16).view(np.float32)
            assert np.array_equal(found, expected)
        assert not tensors["a"].flags.writeable
        with pytest.raises(KeyError):
            tensors["d"]


def test_data_starts_on_a_64_byte_boundary(tmp_path: Path) -> None:
    with SafetensorsFile(_write(tmp_path / "x")) as tensors:
        assert tensors.tensors["a"].offset % 64 == 0


def test_writer_refuses_blocks_that_do_not_fill_the_tensor(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a: 4 bytes produced, 8 expected"):
        write_safetensors(tmp_path / "x", [Entry("a", "F32", (2,))], lambda entry: [np.zeros(1, np.float32)])


def _entry(dtype: Any = "F32", shape: Any = (6,), offsets: Any = (0, 24)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


HOSTILE: dict[str, tuple[Any, str]] = {
    "not json": (b"{nonsense", "header is not valid"),
    "list": (b"[1, 2]  ", "does not start with {"),
    "twice": (b'{"a": {}, "a": {}}', "'a' appears twice"),
    "deep": (b'{"a":' + b"[" * 100_000, "header is not valid"),
    "not utf-8": (b'{"\xff": 1}', "header is not valid"),
    "huge number": (b'{"a":' + b"9" * 5000 + b"}", "header is not valid"),
    "metadata": ({"__metadata__": {"a": 1}, "x": _entry()}, "__metadata__ is not a table of strings"),
    "no shape": ({"x": {"dtype": "F32", "data_offsets": [0, 24]}}, "tensor x needs exactly"),
    "extra key": ({"x": _entry() | {"y": 1}}, "tensor x needs exactly"),
    "dtype": ({"x": _entry(dtype="F8")}, "tensor x has dtype 'F8', allowed are F64"),
    "dtype type": ({"x": _entry(dtype=["F32"])}, "tensor x has dtype"),
    "negative": ({"x": _entry(shape=[-6])}, "tensor x has shape"),
    "bool": ({"x": _entry(shape=[True])}, "tensor x has shape"),
    "float": ({"x": _entry(shape=[6.0])}, "tensor x has shape"),
    "dimensions": ({"x": _entry(shape=[1] * 9)}, "tensor x has shape"),
    "product": ({"x": _entry(shape=[2**40, 2**40])}, "bytes, .* are needed"),
    "offsets": ({"x": _entry(offsets=[24, 0])}, "tensor x has -24 bytes"),
    "one offset": ({"x": _entry(offsets=[24])}, "two offsets are needed"),
    "beyond": ({"x": _entry(shape=[7], offsets=[0, 28])}, "ends at byte .*is it cut off"),
    "far": ({"x": _entry(shape=[2**50], offsets=[0, 2**52])}, "is it cut off"),
    "hole": ({"x": _entry(shape=[5], offsets=[4, 24])}, "tensor x leaves a hole"),
    "overlap": (
        {"x": _entry(shape=[4], offsets=[0, 16]), "y": _entry(shape=[4], offsets=[8, 24])},
        "tensor y overlaps",
    ),
    "same place": ({"x": _entry(), "y": _entry()}, "tensor y overlaps"),
    "rest": ({"x": _entry(shape=[5], offsets=[0, 20])}, "4 bytes after the last tensor"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_headers_are_refused_by_name(case: str, tmp_path: Path) -> None:
    header, message = HOSTILE[case]
    file = _file(tmp_path / "bad.safetensors", header)
    with pytest.raises(ModelInvalidError, match=message) as caught:
        SafetensorsFile(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("length", [2**63, 2**40, 1000])
def test_a_false_header_length_costs_no_memory(length: int, tmp_path: Path) -> None:
    file = tmp_path / "bad.safetensors"
    file.write_bytes(length.to_bytes(8, "little") + b"{}")
    tracemalloc.start()
    try:
        with pytest.raises(ModelInvalidError, match=f"header of {length} bytes"):
            SafetensorsFile(file)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_header_above_the_limit_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "big.safetensors"
    with open(file, "wb") as stream:
        stream.write((64 << 20).to_bytes(8, "little"))
        stream.truncate(65 << 20)
    with pytest.raises(ModelInvalidError, match="at most 33554432 are allowed"):
        SafetensorsFile(file)


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    data = _write(tmp_path / "x").read_bytes()
    for length in range(len(data)):
        (tmp_path / "y").write_bytes(data[:length])
        with pytest.raises(ModelInvalidError):
            SafetensorsFile(tmp_path / "y")


@settings(max_examples=300)
@given(st.data())
def test_no_damage_is_worse_than_a_refusal(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    file = tmp_path_factory.mktemp("s") / "x"
    content = bytearray(_write(file).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    file.write_bytes(content)
    with contextlib.suppress(ModelInvalidError), SafetensorsFile(file) as tensors:
        for name in tensors:
            assert tensors[name].nbytes == tensors.tensors[name].nbytes


def test_views_outlive_close_and_survive_release(tmp_path: Path) -> None:
    tensors = SafetensorsFile(_write(tmp_path / "x"))
    view = tensors["a"]
    tensors.release()
    tensors.close()
    tensors.close()
    assert np.array_equal(view, VALUES["a"])
    with pytest.raises(ValueError, match="closed"):
        tensors["a"]


def test_expect_names_what_is_wrong(tmp_path: Path) -> None:
    with SafetensorsFile(_write(tmp_path / "x")) as tensors:
        tensors.expect("a", (2, 3), ("F32",))
        with pytest.raises(ModelInvalidError, match="tensor q is missing"):
            tensors.expect("q", (1,), ("F32",))
        with pytest.raises(ModelInvalidError, match=r"tensor a has shape \[2, 3\], \[3, 2\] is needed"):
            tensors.expect("a", (3, 2), ("F32",))
        with pytest.raises(ModelInvalidError, match="tensor a has dtype F32, allowed are F16"):
            tensors.expect("a", (2, 3), ("F16",))
