"""A bundle with the weights of another, every one of talker and predictor stored as float32.

Quantised weights are multiplied with activations that are quantised too, so one rounding that falls the other
way on another machine re-rolls those after it. With float32 there is none, and machines can be compared.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import gguf
import numpy as np
from gguf.quants import dequantize


def widen(bundle: Path, out: Path) -> None:
    """Write to the new folder `out` what `bundle` holds, with float32 in its GGUF files."""
    shutil.copytree(bundle, out)
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    for part in ("talker", "predictor"):
        name = f"{part}.gguf"
        _widen_file(bundle / name, out / name)
        manifest[part]["precision"] = "f32"
        data = (out / name).read_bytes()
        manifest["files"][name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def _widen_file(source: Path, target: Path) -> None:
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, str(reader.fields["general.architecture"].contents()))
    for name, field in reader.fields.items():
        # The writer itself has counted tensors and keys, and named the architecture.
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        value = int(gguf.LlamaFileType.ALL_F32) if name == "general.file_type" else field.contents()
        writer.add_key_value(name, value, field.types[0])
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        # GGUF names the fastest dimension first.
        writer.add_tensor(tensor.name, np.ascontiguousarray(values, np.float32).reshape(tensor.shape[::-1]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
