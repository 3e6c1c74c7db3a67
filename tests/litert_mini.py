"""A miniature codec decoder as a TFLite file, with the signatures, names and shapes of the real one.

Frame t is y[t] = W @ concat(table[codes[t]]), and the output of the stream is
pcm[t] = y[t] + 0.5 * y[t-1] + 0.001 * t, so both states (the last y, the frame number) are needed for
chunked output to equal the whole. `Mini.reference` is the same in numpy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as tfl
from numpy.typing import NDArray

INT32 = tfl.TensorType.INT32
FLOAT32 = tfl.TensorType.FLOAT32


class _Graph:
    """Collects the tensors and operators of one subgraph."""

    def __init__(self, model: tfl.ModelT, codes: list[int]) -> None:
        self.model, self.codes = model, codes
        self.graph = tfl.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []

    def tensor(self, name: str, shape: list[int], kind: int = FLOAT32, buffer: int = 0) -> int:
        t = tfl.TensorT()
        t.name, t.shape, t.type, t.buffer = name.encode(), shape, kind, buffer
        self.graph.tensors.append(t)
        return len(self.graph.tensors) - 1

    def const(self, name: str, value: NDArray[np.generic], buffer: int | None = None) -> int:
        kind = INT32 if value.dtype == np.int32 else FLOAT32
        return self.tensor(
            name, list(value.shape), kind, add_buffer(self.model, value) if buffer is None else buffer
        )

    def op(self, builtin: int, inputs: list[int], output: int, kind: int = 0, options: object = None) -> int:
        if builtin not in self.codes:
            self.codes.append(builtin)
            code = tfl.OperatorCodeT()
            code.builtinCode = builtin
            code.deprecatedBuiltinCode = min(builtin, 127)
            code.version = 1
            self.model.operatorCodes.append(code)
        o = tfl.OperatorT()
        o.opcodeIndex, o.inputs, o.outputs = self.codes.index(builtin), inputs, [output]
        o.builtinOptionsType, o.builtinOptions = kind, options
        self.graph.operators.append(o)
        return output


def add_buffer(model: tfl.ModelT, value: NDArray[np.generic]) -> int:
    """Append a constant buffer and return its index."""
    b = tfl.BufferT()
    b.data = np.frombuffer(value.tobytes(), np.uint8)
    model.buffers.append(b)
    return len(model.buffers) - 1


@dataclass
class Mini:
    """What the miniature is made of; change a field to make a file that must be refused."""

    groups: int = 4
    entries: int = 16
    dim: int = 8
    spf: int = 32
    chunks: tuple[int, ...] = (1, 4)
    seed: int = 0
    code_type: int = INT32
    pcm_name: str = "pcm"
    state_name: str = "state_00"
    prefix: str = "decode_"
    pcm_extra: int = 0
    codes_rank: int = 3
    drop_state_output: bool = False
    # States that stay as they are, beside the two.
    idle_states: int = 0
    table: NDArray[np.float32] = field(init=False)
    weight: NDArray[np.float32] = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        self.table = rng.standard_normal((self.entries, self.dim)).astype(np.float32)
        self.weight = (0.05 * rng.standard_normal((self.spf, self.groups * self.dim))).astype(np.float32)

    def reference(self, codes: NDArray[np.int32]) -> NDArray[np.float32]:
        """PCM of a whole stream: codes [n, groups] to float32 [n * spf]."""
        n = codes.shape[0]
        y = self.table[codes].reshape(n, -1) @ self.weight.T
        before = np.concatenate([np.zeros((1, self.spf), np.float32), y[:-1]])
        return (y + 0.5 * before + 0.001 * np.arange(n, dtype=np.float32)[:, None]).astype(np.float32).ravel()

    def random_codes(self, n: int, seed: int = 1) -> NDArray[np.int32]:
        """Codes [n, groups] in range."""
        return np.random.default_rng(seed).integers(0, self.entries, (n, self.groups), dtype=np.int32)

    def write(self, path: Path) -> Path:
        """Write the file and return its path."""
        path.write_bytes(self.build())
        return path

    def build(self) -> bytes:
        """The file's bytes."""
        model = tfl.ModelT()
        model.version, model.description = 3, b"miniature codec decoder"
        model.operatorCodes, model.subgraphs, model.signatureDefs = [], [], []
        model.buffers = [tfl.BufferT()]
        table, weight = add_buffer(model, self.table), add_buffer(model, self.weight)
        op_codes: list[int] = []
        for index, n in enumerate(self.chunks):
            self._signature(model, op_codes, index, n, table, weight)
        builder = flatbuffers.Builder(1 << 16)
        builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())

    def _signature(
        self, model: tfl.ModelT, op_codes: list[int], index: int, n: int, table: int, weight: int
    ) -> None:
        g, b, width = _Graph(model, op_codes), tfl.BuiltinOperator, self.groups * self.dim
        shape = [1, n, self.groups] if self.codes_rank == 3 else [n, self.groups]
        # The states come before the codes here and after them in the signature: the order must not matter.
        state, position = g.tensor("s0", [1, self.spf]), g.tensor("s1", [1, 1])
        codes = g.tensor("c", shape, self.code_type)
        ints = lambda *v: g.const("k", np.array(v, np.int32))  # noqa: E731
        flat = g.op(
            b.RESHAPE, [codes, ints(n * self.groups)], g.tensor("flat", [n * self.groups], self.code_type)
        )
        rows = g.op(
            b.GATHER,
            [g.const("table", self.table, table), flat],
            g.tensor("rows", [n * self.groups, self.dim]),
            tfl.BuiltinOptions.GatherOptions,
            tfl.GatherOptionsT(),
        )
        wide = g.op(b.RESHAPE, [rows, ints(n, width)], g.tensor("wide", [n, width]))
        bias = g.const("bias", np.zeros(self.spf, np.float32))
        y = g.op(
            b.FULLY_CONNECTED,
            [wide, g.const("weight", self.weight, weight), bias],
            g.tensor("y", [n, self.spf]),
            tfl.BuiltinOptions.FullyConnectedOptions,
            tfl.FullyConnectedOptionsT(),
        )
        cat = tfl.ConcatenationOptionsT()
        cat.axis = 0
        joined = g.op(
            b.CONCATENATION,
            [state, y],
            g.tensor("joined", [n + 1, self.spf]),
            tfl.BuiltinOptions.ConcatenationOptions,
            cat,
        )
        last = g.op(b.SLICE, [joined, ints(n, 0), ints(1, self.spf)], g.tensor("s0out", [1, self.spf]))
        before = g.op(b.SLICE, [joined, ints(0, 0), ints(n, self.spf)], g.tensor("before", [n, self.spf]))
        half = self._binary(
            g, b.MUL, before, g.const("half", np.full((1, 1), 0.5, np.float32)), [n, self.spf]
        )
        total = self._binary(g, b.ADD, y, half, [n, self.spf])
        steps = g.const("steps", np.arange(n, dtype=np.float32)[:, None])
        frame = self._binary(g, b.ADD, steps, position, [n, 1])
        ramp = self._binary(g, b.MUL, frame, g.const("milli", np.full((1, 1), 0.001, np.float32)), [n, 1])
        pcm2 = self._binary(g, b.ADD, total, ramp, [n, self.spf])
        pcm_shape = (
            [1, n * self.spf]
            if not self.pcm_extra
            else [1 + self.pcm_extra, n * self.spf // (1 + self.pcm_extra)]
        )
        pcm = g.op(b.RESHAPE, [pcm2, ints(*pcm_shape)], g.tensor("p", pcm_shape))
        moved = self._binary(g, b.ADD, position, g.const("n", np.full((1, 1), n, np.float32)), [1, 1])
        g.graph.inputs, g.graph.outputs = [state, position, codes], [last, pcm, moved]
        model.subgraphs.append(g.graph)
        sig = tfl.SignatureDefT()
        sig.signatureKey, sig.subgraphIndex = f"{self.prefix}{n}".encode(), index
        sig.inputs = [
            self._map("codes", codes),
            self._map("state_01", position),
            self._map(self.state_name, state),
        ]
        sig.outputs = [self._map(self.pcm_name, pcm), self._map(self.state_name, last)]
        if self.drop_state_output:
            g.graph.outputs = [last, pcm]
        else:
            sig.outputs.append(self._map("state_01", moved))
        for number in range(2, 2 + self.idle_states):
            idle = g.tensor("i", [1, 1])
            same = self._binary(g, b.ADD, idle, g.const("none", np.zeros((1, 1), np.float32)), [1, 1])
            g.graph.inputs.append(idle)
            g.graph.outputs.append(same)
            sig.inputs.append(self._map(f"state_{number:02}", idle))
            sig.outputs.append(self._map(f"state_{number:02}", same))
        model.signatureDefs.append(sig)

    @staticmethod
    def _binary(g: _Graph, builtin: int, a: int, b: int, shape: list[int]) -> int:
        is_add = builtin == tfl.BuiltinOperator.ADD
        kind = tfl.BuiltinOptions.AddOptions if is_add else tfl.BuiltinOptions.MulOptions
        return g.op(
            builtin, [a, b], g.tensor("t", shape), kind, tfl.AddOptionsT() if is_add else tfl.MulOptionsT()
        )

    @staticmethod
    def _map(name: str, tensor: int) -> tfl.TensorMapT:
        m = tfl.TensorMapT()
        m.name, m.tensorIndex = name.encode(), tensor
        return m
