"""The text front end of a checkpoint that has one of its own instead of a tokenizer.

Such a checkpoint has a folder ``frontend`` with ``frontend.json`` (``frontend`` and ``lead_frames``, as in
the bundle's manifest) and the data files of that front end.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgettsd.errors import InvalidOptionError, ModelInvalidError
from edgettsd.families.qwen3_tts.frontends import FRAMES, FRONTENDS
from edgettsd.frontends.english.frontend import EnglishFrontEnd, FrameTokenizer

FOLDER = "frontend"
FILE = "frontend.json"
# What the official wrapper puts around a text before it asks the processor for ids.
TEMPLATE = ("<|im_start|>assistant\n", "<|im_end|>\n<|im_start|>assistant\n")


def write_frontend(folder: Path, files: dict[str, Path], lead_frames: int) -> None:
    """Give the checkpoint in `folder` the front end en-frames with these data files, by name."""
    target = folder / FOLDER
    target.mkdir(exist_ok=True)
    for name in FRONTENDS[FRAMES].files:
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
        for name in FRONTENDS[FRAMES].files:
            shutil.copyfile(folder / name, out / name)
    except ValueError as error:
        raise ModelInvalidError(f"{folder / FILE}: not valid JSON: {error}") from None
    except FileNotFoundError as error:
        raise ModelInvalidError(f"{error.filename} is missing") from None
    return {"frontend": FRAMES, "vocab": vocab, "lead_frames": table["lead_frames"]}


class TemplateIds:
    """The front end of a checkpoint in the place of the official text processor.

    The official code asks for the ids of a text inside its template; the ids around the text are the
    checkpoint's own. Raises ModelInvalidError for a folder without a front end.
    """

    def __init__(self, checkpoint: Path) -> None:
        folder = checkpoint / FOLDER
        self._tokenizer = FrameTokenizer(
            EnglishFrontEnd.load({n: folder / n for n in FRONTENDS[FRAMES].files})
        )

    def __call__(self, templated: str) -> list[int]:
        """Ids of a text in the template of what is to be said; ValueError for any other template."""
        head, tail = TEMPLATE
        if not templated.startswith(head) or not templated.endswith(tail):
            raise ValueError(f"text is {templated!r}; this front end knows only what is to be said")
        return self._tokenizer.speech(templated[len(head) : -len(tail)])


class GivenIds:
    """Ids in the place of a text: what the official code was given, whatever text is asked for."""

    HEAD, TAIL = FrameTokenizer.HEAD, FrameTokenizer.TAIL

    def __init__(self, ids: Sequence[int]) -> None:
        self._ids = list(ids)

    def speech(self, text: str) -> list[int]:
        """All ids, with those around the text."""
        return list(self._ids)

    def plain(self, text: str) -> list[int]:
        """The ids of the text alone."""
        return self._ids[self.HEAD : -self.TAIL]

    def instruction(self, instruct: str) -> list[int]:
        """There is none: raises InvalidOptionError."""
        raise InvalidOptionError(f"instruct: {instruct!r} given, but this model takes no instructions")
