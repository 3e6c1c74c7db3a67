"""Reads the files of checkpoints: configuration and tensors, without torch."""

from __future__ import annotations

import json
import re
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
ADAPTER = "adapter_config.json"
# Parts of names that compiled, distributed or checkpointed training puts around a module.
WRAPPERS = frozenset({"_orig_mod", "module", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
# Parts of names that peft gives to tensors of an adapter that is not merged.
_ADAPTED = re.compile(r"(^|\.)(base_model|base_layer|modules_to_save|lora_[A-Za-z_]+)(\.|$)")
_MAX_JSON = 64 << 20


class AdapterError(ModelInvalidError):
    """The checkpoint holds an adapter's tensors, not the model's."""

    HINT = "merge it into its model (merge_and_unload() of peft), save that, and convert it"


def unwrapped(name: str) -> str:
    """A tensor's name without what training put around its module."""
    return ".".join(part for part in name.split(".") if part not in WRAPPERS)


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


def optional_json(path: Path) -> dict[str, Any] | None:
    """As `read_json`, None without the file. A link whose target is missing is a broken download."""
    if not path.exists():
        if path.is_symlink():
            raise ModelInvalidError(f"{path} is a link to nothing")
        return None
    return read_json(path)


class TensorSet:
    """The tensors of one folder, from model.safetensors or from the shards that its index lists.

    Tensors are known by their official names, without what training put around them (WRAPPERS).
    Reading checks for NaN and infinity, and gives the touched pages back afterwards, so that memory stays at
    one tensor whatever the checkpoint's size. Raises ModelInvalidError.
    """

    def __init__(self, folder: Path) -> None:
        self._files: list[SafetensorsFile] = []
        # Official name -> the file and the name there.
        self._home: dict[str, tuple[SafetensorsFile, str]] = {}
        try:
            if (folder / INDEX).exists():
                self._open_shards(folder)
            elif (folder / SINGLE).exists():
                self._add(SafetensorsFile(folder / SINGLE))
            elif (folder / ADAPTER).exists():
                raise AdapterError(f"{folder} holds an adapter (LoRA) alone")
            else:
                raise ModelInvalidError(f"{folder} has neither {SINGLE} nor {INDEX}")
        except BaseException:
            self.close()
            raise

    def _add(self, file: SafetensorsFile) -> None:
        self._files.append(file)
        for stored in file:
            if _ADAPTED.search(stored):
                raise AdapterError(f"{file.path}: tensor {stored} is of an adapter (LoRA) that is not merged")
            name = unwrapped(stored)
            if name in self._home:
                other, there = self._home[name]
                where = f"in {other.path.name}" if there == stored else f"there as {there}"
                raise ModelInvalidError(f"{file.path}: tensor {stored} is also {where}")
            self._home[name] = file, stored

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
        stored_in = {stored: file for file, stored in self._home.values()}
        for name, shard in places.items():
            if name not in stored_in or stored_in[name].path.name != shard:
                raise ModelInvalidError(f"{folder / shard}: tensor {name} of {INDEX} is missing")
        for name, file in stored_in.items():
            if name not in places:
                raise ModelInvalidError(f"{file.path}: tensor {name} is not in {INDEX}")

    def names(self) -> Iterator[str]:
        """Every tensor's official name."""
        return iter(self._home)

    def check(self, expected: Mapping[str, tuple[int, ...]], ignored: tuple[str, ...] = ()) -> None:
        """Demand exactly the tensors `expected`, beside those whose names start with one of `ignored`."""
        for name, shape in expected.items():
            if name not in self._home:
                where = ", ".join(str(file.path) for file in self._files)
                raise ModelInvalidError(f"{where}: tensor {name} {list(shape)} is missing")
            file, stored = self._home[name]
            file.expect(stored, shape, FLOAT_DTYPES)
        for name, (file, stored) in self._home.items():
            if name not in expected and not name.startswith(ignored):
                raise ModelInvalidError(
                    f"{file.path}: tensor {stored} {list(file.tensors[stored].shape)} does not belong there"
                )

    def nbytes(self, name: str) -> int:
        """Stored size in bytes."""
        file, stored = self._home[name]
        return file.tensors[stored].nbytes

    def read(self, name: str) -> Floats:
        """The whole tensor as float32."""
        return self.rows(name, 0, None)

    def rows(self, name: str, start: int, stop: int | None) -> Floats:
        """Rows [start, stop) as float32."""
        if name not in self._home:
            raise ModelInvalidError(f"{self._files[0].path}: tensor {name} is missing")
        file, stored = self._home[name]
        view = file[stored][start:stop]
        values: Floats
        if file.tensors[stored].dtype == "BF16":
            values = (view.astype(np.uint32) << 16).view(np.float32)
        else:
            values = view.astype(np.float32)
        del view
        file.release()
        finite = np.isfinite(values)
        if not finite.all():
            place = [int(axis[0]) for axis in np.nonzero(~finite)]
            value = values[tuple(place)]
            if place:
                place[0] += start
            raise ModelInvalidError(
                f"{file.path}: tensor {stored} has {value} at {place}, finite numbers are needed"
            )
        return values

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()
