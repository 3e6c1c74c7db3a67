"""What several of these files share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


def _identity(file: Path) -> tuple[int, ...]:
    status = os.stat(file)
    return status.st_ino, status.st_size, status.st_mtime_ns


_TOKENIZERS: dict[tuple[Any, ...], bytes] = {}


@pytest.fixture
def remembered_tokenizers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the tokenizer of unchanged files once: it is most of a tiny conversion's time."""
    # Here, for the kernels' tests run without gguf on aarch64.
    from edgettsd_tools.families.qwen3_tts.tokenizer_gguf import write_tokenizer

    def remember(path: Path, folder: Path, size: int, wanted: dict[str, int]) -> None:
        files = ("vocab.json", "merges.txt", "tokenizer_config.json")
        if not all((folder / file).exists() for file in files):
            write_tokenizer(path, folder, size, wanted)
            return
        key = (*(_identity(folder / file) for file in files), size, *sorted(wanted.items()))
        if key not in _TOKENIZERS:
            write_tokenizer(path, folder, size, wanted)
            _TOKENIZERS[key] = path.read_bytes()
        path.write_bytes(_TOKENIZERS[key])

    monkeypatch.setattr("edgettsd_tools.families.qwen3_tts.tokenizer_gguf.write_tokenizer", remember)
