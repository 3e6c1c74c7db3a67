"""Files that are written under another name and renamed when whole, and what killed writers leave of them.

A file is written as NAME.tmp and locked (flock) as long as its writer, or a child of it that writes, lives.
So a .tmp that nobody has locked is left over, whatever process number its writer had.
`weights/et_weight_file.c` writes by the same rule.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterable
from pathlib import Path

TEMPORARY = ".tmp"
_TRIES = 8


def temporary(file: Path) -> Path:
    """A name of this thread's own to write `file` under."""
    return file.with_name(f"{file.name}.{os.getpid()}.{threading.get_ident()}{TEMPORARY}")


def create(tmp: Path, mode: int = 0o644) -> int:
    """Create `tmp`, or empty it, and lock it: a descriptor for reading and writing. Raises OSError."""
    for _ in range(_TRIES):
        fd = os.open(tmp, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            # Somebody may have taken it for left over before it was locked.
            if _lock(fd) and os.path.samestat(os.fstat(fd), os.stat(tmp)):
                return fd
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
    raise BlockingIOError(f"{tmp} is written by somebody else")


def write(file: Path, text: str, mode: int = 0o644) -> None:
    """Give `file` this content, whole or not at all. Raises OSError."""
    tmp = temporary(file)
    fd = create(tmp, mode)
    try:
        with open(fd, "w", encoding="utf-8", closefd=False) as stream:
            stream.write(text)
        os.fsync(fd)
        os.replace(tmp, file)
    except BaseException:
        with contextlib.suppress(OSError):
            tmp.unlink()
        raise
    finally:
        os.close(fd)


def delete(files: Iterable[Path], keep: str | None = None) -> None:
    """Delete those of `files` that are left over, and with `keep` all whose name does not begin so."""
    for file in files:
        if file.name.endswith(TEMPORARY):
            _delete_left_over(file)
        elif keep is not None and not file.name.startswith(keep):
            with contextlib.suppress(OSError):
                file.unlink()


def _lock(fd: int) -> bool:
    """Whether the file is locked now, or cannot be on this file system, where nothing is ever left over."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def _delete_left_over(tmp: Path) -> None:
    """Delete a file that nobody has locked; it is locked until it is gone, so nobody begins to write it."""
    try:
        fd = os.open(tmp, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        tmp.unlink()
    except OSError:
        pass
    finally:
        os.close(fd)
