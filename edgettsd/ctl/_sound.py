"""What the sound devices look like: /proc/asound, and whether the PCM opens."""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# Opens and closes a PCM for playback; returns 0 or an errno value.
OpenPcm = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Playback:
    """One playback device; `users` are the programs that have it open, as "name (pid)"."""

    pcm: str
    name: str
    users: tuple[str, ...]


def cards(root: Path) -> list[str]:
    """Names of the sound cards, such as "0 PCH: HDA Intel PCH"; `root` is / but for tests."""
    found = re.findall(r"(?m)^ *(\d+) \[(\w+) *\]: *\S+ - (.+)$", _read(root / "proc/asound/cards"))
    return [f"{number} {card}: {name.strip()}" for number, card, name in found]


def playbacks(root: Path) -> list[Playback]:
    """The playback devices."""
    found = []
    for line in _read(root / "proc/asound/pcm").splitlines():
        match = re.match(r"(\d+)-(\d+): (.*?)(?: :|$)", line)
        if match and "playback" in line:
            card, device = int(match[1]), int(match[2])
            users = _users(root, root / f"proc/asound/card{card}/pcm{device}p")
            found.append(Playback(f"hw:{card},{device}", match[3].strip(), users))
    return found


def _users(root: Path, folder: Path) -> tuple[str, ...]:
    users = []
    for status in sorted(folder.glob("sub*/status")):
        if match := re.search(r"owner_pid\s*:\s*(\d+)", _read(status)):
            name = _read(root / "proc" / match[1] / "comm").strip() or "process"
            users.append(f"{name} ({match[1]})")
    return tuple(users)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def open_pcm(device: str) -> int:
    """Open `device` for playback without blocking, and close it.

    Returns 0 or an errno value; ENOSYS: there is no libasound.
    """
    try:
        library = ctypes.CDLL("libasound.so.2")
    except OSError:
        return errno.ENOSYS
    # alsa-lib writes its reasons to stderr; the returned number is enough here.
    quiet = ctypes.CFUNCTYPE(None)(lambda: None)
    library.snd_lib_error_set_handler(quiet)
    handle = ctypes.c_void_p()
    # Stream 0 is playback, mode 1 is non-blocking.
    result: int = library.snd_pcm_open(ctypes.byref(handle), os.fsencode(device), 0, 1)
    if result == 0:
        library.snd_pcm_close(handle)
    library.snd_lib_error_set_handler(None)
    return -result
