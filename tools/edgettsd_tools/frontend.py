"""The text front end of a checkpoint that has one of its own instead of a tokenizer.

Such a checkpoint has a folder ``frontend`` with ``frontend.json`` (``frontend`` and ``lead_frames``, as in
the bundle's manifest) and the data files of that front end.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from edgettsd.errors import ModelInvalidError
from edgettsd.models.manifest import FRAMES, FRONTENDS

FOLDER = "frontend"
FILE = "frontend.json"


def write_frontend(folder: Path, files: dict[str, Path], lead_frames: int) -> None:
    """Give the checkpoint in `folder` the front end en-frames with these data files, by name."""
    target = folder / FOLDER
    target.mkdir(exist_ok=True)
    for name in FRONTENDS[FRAMES]:
        shutil.copyfile(files[name], target / name)
    text = json.dumps({"frontend": FRAMES, "lead_frames": lead_frames}, indent=2) + "\n"
    (target / FILE).write_text(text, encoding="utf-8")


def copy_frontend(checkpoint: Path, out: Path, vocab: int) -> dict[str, Any] | None:
    """Copy the data files into the bundle `out`; returns the manifest's text table.

    None when the checkpoint has no such folder. Raises ModelInvalidError for a wrong or incomplete one.
    """
    folder = checkpoint / FOLDER
    if not folder.exists():
        return None
    try:
        table = json.loads((folder / FILE).read_text(encoding="utf-8"))
        if not isinstance(table, dict) or set(table) != {"frontend", "lead_frames"}:
            raise ModelInvalidError(f"{folder / FILE}: exactly frontend and lead_frames are needed")
        if table["frontend"] != FRAMES:
            raise ModelInvalidError(
                f"{folder / FILE}: frontend is {table['frontend']!r}; allowed is {FRAMES}"
            )
        for name in FRONTENDS[FRAMES]:
            shutil.copyfile(folder / name, out / name)
    except ValueError as error:
        raise ModelInvalidError(f"{folder / FILE}: not valid JSON: {error}") from None
    except FileNotFoundError as error:
        raise ModelInvalidError(f"{error.filename} is missing") from None
    return {"frontend": FRAMES, "vocab": vocab, "lead_frames": table["lead_frames"]}
