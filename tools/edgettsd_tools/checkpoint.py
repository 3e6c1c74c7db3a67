"""Reads official Qwen3-TTS checkpoints: configuration, tokenizer files and tensors, without torch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgettsd.errors import ModelInvalidError
from edgettsd.models.safetensors import SafetensorsFile

Floats = npt.NDArray[np.float32]

FLOAT_DTYPES = ("BF16", "F16", "F32")
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_MAX_JSON = 64 << 20


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file that holds a table. Raises ModelInvalidError naming the file."""
    try:
        if path.stat().st_size > _MAX_JSON:
            raise ModelInvalidError(f"{path} is larger than {_MAX_JSON} bytes")
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelInvalidError(f"{path} is missing") from None
    except (ValueError, RecursionError) as error:
        raise ModelInvalidError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise ModelInvalidError(f"{path} does not hold a table")
    return value


class TensorSet:
    """The tensors of one folder, from model.safetensors or from the shards that its index lists.

    Reading checks for NaN and infinity, and gives the touched pages back afterwards, so that memory stays at
    one tensor whatever the checkpoint's size. Raises ModelInvalidError.
    """

    def __init__(self, folder: Path) -> None:
        self._files: list[SafetensorsFile] = []
        self._home: dict[str, SafetensorsFile] = {}
        try:
            if (folder / INDEX).exists():
                self._open_shards(folder)
            elif (folder / SINGLE).exists():
                self._add(SafetensorsFile(folder / SINGLE))
            else:
                raise ModelInvalidError(f"{folder} has neither {SINGLE} nor {INDEX}")
        except BaseException:
            self.close()
            raise

    def _add(self, file: SafetensorsFile) -> None:
        self._files.append(file)
        for name in file:
            if name in self._home:
                raise ModelInvalidError(f"{file.path}: tensor {name} is also in {self._home[name].path.name}")
            self._home[name] = file

    def _open_shards(self, folder: Path) -> None:
        index = folder / INDEX
        places = read_json(index).get("weight_map")
        if not isinstance(places, dict) or not all(isinstance(place, str) for place in places.values()):
            raise ModelInvalidError(f"{index}: weight_map is not a table of file names")
        for shard in sorted(set(places.values())):
            if Path(shard).name != shard or not shard.endswith(".safetensors"):
                raise ModelInvalidError(f"{index}: weight_map names {shard!r}, a file beside it is needed")
            if not (folder / shard).exists():
                raise ModelInvalidError(f"{folder / shard} is missing")
            self._add(SafetensorsFile(folder / shard))
        for name, shard in places.items():
            if name not in self._home or self._home[name].path.name != shard:
                raise ModelInvalidError(f"{folder / shard}: tensor {name} of {INDEX} is missing")
        for name, file in self._home.items():
            if name not in places:
                raise ModelInvalidError(f"{file.path}: tensor {name} is not in {INDEX}")

    def names(self) -> Iterator[str]:
        """Every tensor's name."""
        return iter(self._home)

    def check(self, expected: Mapping[str, tuple[int, ...]], ignored: tuple[str, ...] = ()) -> None:
        """Demand exactly the tensors `expected`, beside those whose names start with one of `ignored`."""
        for name, shape in expected.items():
            file = self._home.get(name)
            if file is None:
                where = ", ".join(str(file.path) for file in self._files)
                raise ModelInvalidError(f"{where}: tensor {name} {list(shape)} is missing")
            file.expect(name, shape, FLOAT_DTYPES)
        for name, file in self._home.items():
            if name not in expected and not name.startswith(ignored):
                raise ModelInvalidError(
                    f"{file.path}: tensor {name} {list(file.tensors[name].shape)} does not belong there"
                )

    def nbytes(self, name: str) -> int:
        """Stored size in bytes."""
        return self._home[name].tensors[name].nbytes

    def read(self, name: str) -> Floats:
        """The whole tensor as float32."""
        return self.rows(name, 0, None)

    def rows(self, name: str, start: int, stop: int | None) -> Floats:
        """Rows [start, stop) as float32."""
        file = self._home.get(name)
        if file is None:
            raise ModelInvalidError(f"{self._files[0].path}: tensor {name} is missing")
        stored = file[name][start:stop]
        values: Floats
        if file.tensors[name].dtype == "BF16":
            values = (stored.astype(np.uint32) << 16).view(np.float32)
        else:
            values = stored.astype(np.float32)
        del stored
        file.release()
        finite = np.isfinite(values)
        if not finite.all():
            place = [int(axis[0]) for axis in np.nonzero(~finite)]
            value = values[tuple(place)]
            if place:
                place[0] += start
            raise ModelInvalidError(
                f"{file.path}: tensor {name} has {value} at {place}, finite numbers are needed"
            )
        return values

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()


class Checkpoint:
    """An opened checkpoint folder; raises ModelInvalidError for what is missing or cannot be read."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise ModelInvalidError(f"{folder} is not a folder")
        self.folder = folder
        self.config = read_json(folder / "config.json")
        self.generation = read_json(folder / "generation_config.json")
        self.speech_config = read_json(folder / "speech_tokenizer" / "config.json")
        self.model = TensorSet(folder)
        try:
            self.speech = TensorSet(folder / "speech_tokenizer")
        except BaseException:
            self.model.close()
            raise

    def close(self) -> None:
        """Close the tensor files."""
        self.model.close()
        self.speech.close()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
