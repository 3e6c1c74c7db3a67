"""Writes a TFLite model file: shared constant buffers, subgraphs, signatures."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray

# A mapped file starts on a page, so weights are cache-line aligned in memory too.
_ALIGNMENT = 64

_TYPES: dict[str, int] = {
    "float32": schema.TensorType.FLOAT32,
    "float16": schema.TensorType.FLOAT16,
    "int8": schema.TensorType.INT8,
    "int32": schema.TensorType.INT32,
}


@dataclass(frozen=True)
class Constant:
    """A constant: ``data`` and, for int8 weights, f32 ``scales`` along ``axis``."""

    data: NDArray[Any]
    scales: NDArray[np.float32] | None = None
    axis: int = 0


@dataclass(frozen=True)
class Tensor:
    """A tensor of one subgraph: its index there, its shape and its numpy dtype name."""

    index: int
    shape: tuple[int, ...]
    dtype: str = "float32"


class _Buffer(schema.BufferT):  # type: ignore[misc]  # the schema module is untyped
    """A buffer whose bytes are aligned: the generated Pack() ignores the schema's force_align."""

    def Pack(self, builder: Any) -> int:  # noqa: N802 - the generated name
        if self.data is None:
            return int(super().Pack(builder))
        raw = np.ascontiguousarray(self.data).view(np.uint8).reshape(-1)
        builder.StartVector(1, raw.size, _ALIGNMENT)
        builder.head -= raw.size
        np.frombuffer(builder.Bytes, np.uint8)[builder.head : builder.head + raw.size] = raw
        data = builder.EndVector()
        schema.BufferStart(builder)
        schema.BufferAddData(builder, data)
        return int(schema.BufferEnd(builder))


class Model:
    """A model under construction. Constants are made once by name and shared by all subgraphs."""

    def __init__(self, description: str) -> None:
        self._description = description
        self._buffers: list[Any] = [_Buffer()]
        self._codes: list[Any] = []
        self._code_index: dict[tuple[int, int], int] = {}
        self._constants: dict[str, tuple[Constant, int]] = {}
        self._contents: dict[tuple[str, bytes], int] = {}
        self._graphs: list[Graph] = []

    def constant(self, name: str, make: Callable[[], Constant]) -> tuple[Constant, int]:
        """The constant called ``name`` and its buffer index; ``make`` is called the first time only.

        Constants of the same type and content share a buffer, such as units that only pass their input on.
        """
        if name not in self._constants:
            value = make()
            data = np.ascontiguousarray(value.data)
            key = (str(data.dtype), hashlib.sha256(data.data).digest())
            if key not in self._contents:
                buffer = _Buffer()
                buffer.data = data
                self._buffers.append(buffer)
                self._contents[key] = len(self._buffers) - 1
            self._constants[name] = (value, self._contents[key])
        return self._constants[name]

    def opcode(self, builtin: int, version: int) -> int:
        """Index of an operator code, added when new."""
        key = (builtin, version)
        if key not in self._code_index:
            code = schema.OperatorCodeT()
            code.builtinCode = builtin
            # Readers older than the 128th operator look at this field only.
            code.deprecatedBuiltinCode = min(builtin, 127)
            code.version = version
            self._code_index[key] = len(self._codes)
            self._codes.append(code)
        return self._code_index[key]

    def graph(self, name: str) -> Graph:
        """Start a subgraph that is also the signature ``name``."""
        graph = Graph(self, name)
        self._graphs.append(graph)
        return graph

    def save(self, path: Path) -> int:
        """Write the file atomically and return its size in bytes. Raises OSError."""
        model = schema.ModelT()
        model.version = 3
        model.description = self._description
        model.operatorCodes = self._codes
        model.buffers = self._buffers
        model.subgraphs = [graph.table() for graph in self._graphs]
        model.signatureDefs = [graph.signature(i) for i, graph in enumerate(self._graphs)]
        weights = sum(b.data.nbytes for b in self._buffers if b.data is not None)
        # Sized at once: the builder would otherwise double and copy hundreds of megabytes.
        builder = flatbuffers.Builder(weights + (_ALIGNMENT + 64) * len(self._buffers) + (4 << 20))
        builder.Finish(model.Pack(builder), b"TFL3")
        part = path.with_name(path.name + ".part")
        try:
            with open(part, "wb") as file:
                file.write(memoryview(builder.Bytes)[builder.Head() :])
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        return path.stat().st_size


class Graph:
    """One subgraph: named inputs and outputs, constants by name, operators in execution order."""

    def __init__(self, model: Model, name: str) -> None:
        self.model = model
        self.name = name
        self._tensors: list[Any] = []
        self._operators: list[Any] = []
        self._constants: dict[str, Tensor] = {}
        self._inputs: dict[str, int] = {}
        self._outputs: dict[str, int] = {}

    def _add(self, name: str, shape: Sequence[int], dtype: str, buffer: int = 0) -> Tensor:
        tensor = schema.TensorT()
        tensor.name = name
        tensor.shape = np.array(shape, np.int32)
        tensor.type = _TYPES[dtype]
        tensor.buffer = buffer
        tensor.hasRank = True
        self._tensors.append(tensor)
        return Tensor(len(self._tensors) - 1, tuple(int(n) for n in shape), dtype)

    def input(self, name: str, shape: Sequence[int], dtype: str = "float32") -> Tensor:
        """Declare a signature input."""
        tensor = self._add(f"{self.name}_{name}", shape, dtype)
        self._inputs[name] = tensor.index
        return tensor

    def output(self, name: str, tensor: Tensor) -> None:
        """Name ``tensor`` as a signature output."""
        self._outputs[name] = tensor.index

    def constant(self, name: str, make: Callable[[], Constant]) -> Tensor:
        """The constant ``name`` as a tensor of this subgraph, backed by the shared buffer."""
        if name not in self._constants:
            value, buffer = self.model.constant(name, make)
            tensor = self._add(name, value.data.shape, value.data.dtype.name, buffer)
            if value.scales is not None:
                quantization = schema.QuantizationParametersT()
                quantization.scale = np.asarray(value.scales, np.float32)
                quantization.zeroPoint = np.zeros(len(value.scales), np.int64)
                quantization.quantizedDimension = value.axis
                self._tensors[tensor.index].quantization = quantization
            self._constants[name] = tensor
        return self._constants[name]

    def op(
        self,
        builtin: str,
        inputs: Sequence[Tensor],
        shape: Sequence[int],
        options: str = "",
        values: Mapping[str, Any] | None = None,
        version: int = 1,
        dtype: str = "float32",
    ) -> Tensor:
        """Append an operator with one output of ``shape`` and ``dtype``; ``options`` names its table."""
        output = self._add(f"{self.name}_{len(self._operators):04d}", shape, dtype)
        operator = schema.OperatorT()
        operator.opcodeIndex = self.model.opcode(getattr(schema.BuiltinOperator, builtin), version)
        operator.inputs = np.array([t.index for t in inputs], np.int32)
        operator.outputs = np.array([output.index], np.int32)
        if options:
            table = getattr(schema, options + "T")()
            for key, value in (values or {}).items():
                if not hasattr(table, key):
                    raise AttributeError(f"{options} has no field {key}")
                setattr(table, key, value)
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, options)
            operator.builtinOptions = table
        self._operators.append(operator)
        return output

    def table(self) -> Any:
        """The schema object of this subgraph."""
        graph = schema.SubGraphT()
        graph.name = self.name
        graph.tensors = self._tensors
        graph.operators = self._operators
        graph.inputs = np.array(list(self._inputs.values()), np.int32)
        graph.outputs = np.array(list(self._outputs.values()), np.int32)
        return graph

    def signature(self, index: int) -> Any:
        """The schema object of the signature of this subgraph, which is number ``index``."""
        signature = schema.SignatureDefT()
        signature.signatureKey = self.name
        signature.subgraphIndex = index
        signature.inputs = [_named(n, i) for n, i in self._inputs.items()]
        signature.outputs = [_named(n, i) for n, i in self._outputs.items()]
        return signature


def _named(name: str, index: int) -> Any:
    entry = schema.TensorMapT()
    entry.name = name
    entry.tensorIndex = index
    return entry
