"""The check of a decoder's file before LiteRT sees it: what passes, and what is refused."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as tfl
from litert_mini import Mini

from cython_kernels._flatbuffer import MOST, Buffer
from cython_kernels._tflite_check import check
from edgettsd.models import default

MINI = Mini(chunks=(1, 4, 8))


def changed(path: Path, change: Callable[[Any], None]) -> Path:
    """The miniature with something changed in it, as a sound flatbuffer."""
    model = tfl.ModelT.InitFromObj(tfl.Model.GetRootAs(bytearray(MINI.build())))
    change(model)
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    path.write_bytes(bytes(builder.Output()))
    return path


def test_sound_decoders_pass(tmp_path: Path) -> None:
    check(MINI.write(tmp_path / "mini.tflite"))
    check(default.BUILT_IN / "decoder.tflite")


def _set(target: Callable[[Any], Any], **values: Any) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        for name, value in values.items():
            setattr(target(model), name, value)

    return change


def graph(model: Any) -> Any:
    return model.subgraphs[1]


def quantization(**values: Any) -> Any:
    made = tfl.QuantizationParametersT()
    for name, value in values.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set(lambda m: m, version=2), "schema version 2, expected 3"),
        (_set(lambda m: m, signatureDefs=[]), "3 graphs and 0 signatures"),
        (_set(lambda m: m.operatorCodes[0], customCode=b"x"), "operator code 0: a custom operator is not"),
        (
            _set(lambda m: graph(m), inputs=[0, 0]),
            "input 1 is tensor 0, which is constant or an inp",
        ),
        (_set(lambda m: graph(m), inputs=[10**6]), "graph 1: input 0 is tensor 1000000"),
        (_set(lambda m: graph(m), outputs=[-1]), "graph 1: output 0 is tensor -1, which is never computed"),
        (_set(lambda m: graph(m).tensors[3], shape=[0]), "graph 1, tensor 3: dimension 0 is 0"),
        (_set(lambda m: graph(m).tensors[3], shape=[1] * 9), "tensor 3: type 0 of rank 9|type 2 of rank 9"),
        (_set(lambda m: graph(m).tensors[3], shape=[1 << 20] * 3), "dimension 1 is 1048576"),
        (_set(lambda m: graph(m).tensors[3], type=5), "type 5 of rank"),
        (_set(lambda m: graph(m).tensors[3], buffer=999), "buffer 999 does not exist"),
        (_set(lambda m: graph(m).tensors[3], isVariable=True), "variable and external tensors"),
        (
            _set(
                lambda m: graph(m).tensors[0],
                quantization=quantization(scale=[1.0] * 5, zeroPoint=[0] * 5),
            ),
            "5 scales and 5 zero points do not fit its shape",
        ),
        (
            _set(lambda m: graph(m).operators[0], opcodeIndex=99),
            "operator code 99 does not exist",
        ),
        (_set(lambda m: graph(m).operators[0], inputs=[]), "has 0 inputs and 1 outputs"),
        (_set(lambda m: graph(m).operators[-1], inputs=[-1, -1]), "which has no value yet"),
        (
            _set(lambda m: graph(m).operators[1], outputs=[0]),
            "output 0 is tensor 0, which has a value",
        ),
        (_set(lambda m: graph(m).operators[0], intermediates=[1]), "further options are not allowed"),
        (
            _set(lambda m: graph(m).operators[0], mutatingVariableInputs=[True]),
            "changed inputs are not",
        ),
        (_set(lambda m: m.signatureDefs[0], subgraphIndex=7), "signature 0: it has no name or graph"),
        (
            _set(lambda m: m.signatureDefs[0].inputs[0], tensorIndex=10**6),
            "name 0 has no tensor",
        ),
    ],
)
def test_what_is_wrong_is_named(change: Callable[[Any], None], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"damaged TFLite file: .*({message})"):
        check(changed(tmp_path / "x.tflite", change))


@pytest.mark.parametrize("size", [0, 15, 16, 64])
def test_what_is_no_model_is_refused(size: int, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(size))
    with pytest.raises(ValueError, match="not a TFLite file"):
        check(tmp_path / "x")
    with pytest.raises(IsADirectoryError):
        check(tmp_path)


def test_more_tables_than_a_model_has_are_refused_before_they_are_read(tmp_path: Path) -> None:
    """A vector of a million operators that are all the same four bytes."""
    data = bytearray(MINI.build())
    root = struct.unpack_from("<I", data)[0]
    vtable = root - struct.unpack_from("<i", data, root)[0]
    codes = root + struct.unpack_from("<H", data, vtable + 4 + 2 * 1)[0]
    data += bytes(-len(data) % 4)
    at, n = len(data), 1 << 20
    struct.pack_into("<I", data, codes, at - codes)
    data += struct.pack("<I", n) + bytes(4 * n)
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(ValueError, match=f"operator code 0: {n} tables, at most {MOST} are allowed"):
        check(tmp_path / "x")


def test_a_refused_file_is_not_kept_mapped(tmp_path: Path) -> None:
    path = changed(tmp_path / "refused.tflite", _set(lambda m: m, version=2))
    with pytest.raises(ValueError, match="schema version"):
        check(path)
    assert str(path) not in Path("/proc/self/maps").read_text()


def test_numbers_are_read_as_they_are_written() -> None:
    buffer = Buffer(struct.pack("<QqIiHHBB2x", 0, -2, 0xFFFFFFFF, -1, 0xFFFF, 1, 255, 0))
    at = lambda *places: np.array(places, np.int64)  # noqa: E731
    assert buffer.i64(at(0, 8)).tolist() == [0, -2]
    assert buffer.u32(at(16)).tolist() == [0xFFFFFFFF] and buffer.i32(at(16, 20)).tolist() == [-1, -1]
    assert buffer.u16(at(24, 26)).tolist() == [0xFFFF, 1] and buffer.u8(at(28, 29)).tolist() == [255, 0]
    assert buffer.inside(at(0, 28, 33, -1), 4).tolist() == [True, True, False, False]
