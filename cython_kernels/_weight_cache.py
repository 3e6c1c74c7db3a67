"""The file of packed decoder weights.

XNNPACK packs the weights of every signature for the CPU. Kept in a file they are packed once, shared by the
signatures, and mapped: pages that the kernel can drop, instead of anonymous memory. XNNPACK aborts the
process when such a file does not fit the model, the library or the CPU, or when the disk is full while it is
written. So the file's name carries all three, a second small file its size and the digest of its index, and
it is written by a child process that also runs the model once: a file that crashes LiteRT ends that child.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import importlib.metadata
import json
import os
import platform
import signal
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _leftovers

BUILD_TIMEOUT_S = 900.0
HEADER_BYTES = 64
CRASHES = frozenset((signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT))
INVALID = 3  # exit status of a child that refused the model file
_CHILD = """
import ctypes, json, os, signal, sys
# Nobody waits for a child whose parent was killed.
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[5]):
    sys.exit(1)
sys.path[:] = json.loads(sys.argv[1])
from cython_kernels.litert import LiteRtDecoder
try:
    LiteRtDecoder._build(sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4]))
except (ValueError, MemoryError) as error:
    sys.stdout.write(str(error))
    sys.exit(3)
"""


@dataclass(frozen=True, slots=True)
class WeightCache:
    """A usable cache: `file` is its path, or "" when the weights go to memory for the reason `problem`."""

    file: str = ""
    problem: str = ""

    def open(self) -> int:
        """Read-only descriptor of the file, -1 for memory."""
        return os.open(self.file, os.O_RDONLY | os.O_CLOEXEC) if self.file else -1


def is_open(fd: int, file: str) -> bool:
    """Whether `fd` is a descriptor of `file`."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(file))
    except OSError:
        return False


def litert_version() -> str:
    """Version of the LiteRT package, "unknown" where the library comes from the system."""
    try:
        return importlib.metadata.version("ai-edge-litert")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def prepare(model: str, cache_path: str, digest: str | None, settings: dict[str, Any]) -> WeightCache:
    """Find the model's cache file or build it; stale ones of the same `cache_path` are deleted.

    Raises ValueError when the model file is refused or crashes LiteRT.
    """
    folder = Path(cache_path).parent
    file = Path(f"{cache_path}.{_key(model, digest)}.xnn")
    note = file.with_suffix(".json")
    kept = sorted(folder.glob(f"{glob.escape(Path(cache_path).name)}.*"))
    _leftovers.delete(kept)
    if _is_sound(file, note):
        return WeightCache(str(file))
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return WeightCache(problem=f"weight cache: {folder} is not a writable folder")
    # Of other models, libraries and CPUs.
    _leftovers.delete((old for old in kept if old.suffix in (".xnn", ".json")), keep=f"{file.stem}.")
    return _build(model, file, note, settings)


def _key(model: str, digest: str | None) -> str:
    """What the packed weights depend on: the model, the library, the CPU."""
    st = os.stat(model)
    if digest is None:
        with open(model, "rb") as f:
            digest = hashlib.file_digest(f, "sha256").hexdigest()
    parts = [digest, str(st.st_size), str(st.st_mtime_ns), litert_version(), *_library(), *_cpu()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def _library() -> list[str]:
    """Identity of the mapped libLiteRt.so."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            if line.rstrip().endswith("/libLiteRt.so"):
                st = os.stat(line.split(maxsplit=5)[5].rstrip())
                return [str(st.st_size), str(st.st_mtime_ns)]
    return []


def _cpu() -> list[str]:
    """Instruction sets and core types; a field that changes from boot to boot would only cost a rebuild."""
    wanted = (
        "vendor_id",
        "cpu family",
        "model",
        "model name",
        "flags",
        "Features",
        "CPU implementer",
        "CPU architecture",
        "CPU variant",
        "CPU part",
        "isa",
    )
    lines = {platform.machine()}
    with open("/proc/cpuinfo") as info:
        for line in info:
            name, _, value = line.partition(":")
            if name.strip() in wanted:
                lines.add(f"{name.strip()}={value.strip()}")
    return sorted(lines)


def _index_digest(file: Path) -> dict[str, Any] | None:
    """Size of the file and digest of its header and index; None when the header points outside the file."""
    size = file.stat().st_size
    with file.open("rb") as f:
        head = f.read(HEADER_BYTES)
        if len(head) < HEADER_BYTES:
            return None
        _, offset, length = struct.unpack_from("<QQQ", head)
        if offset + length != size:
            return None
        f.seek(offset)
        return {"size": size, "index": hashlib.sha256(head + f.read(length)).hexdigest()}


def _is_sound(file: Path, note: Path) -> bool:
    try:
        expected = json.loads(note.read_text())
        return _index_digest(file) == expected and isinstance(expected, dict)
    except (OSError, ValueError):
        return False


class _ChildError(Exception):
    """The child did not finish; `by_model` when a crash may be the model's doing."""

    def __init__(self, text: str, by_model: bool = False) -> None:
        super().__init__(text)
        self.by_model = by_model


def _run_child(model: str, fd: int, settings: dict[str, Any]) -> None:
    """Pack into `fd` (or memory, -1) and run every signature once, in a child.

    Raises ValueError when the child refused the model file, _ChildError when it did not finish.
    """
    script = [_CHILD, json.dumps(sys.path), model, str(fd), json.dumps(settings), str(os.getpid())]
    argv = [sys.executable, "-c", *script]
    try:
        child = subprocess.run(
            argv,
            pass_fds=() if fd < 0 else (fd,),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _ChildError(f"took longer than {BUILD_TIMEOUT_S:.0f} s") from None
    except OSError as error:
        raise _ChildError(f"could not be started: {error}") from error
    if child.returncode == INVALID:
        raise ValueError(child.stdout)
    if child.returncode < 0:
        number = -child.returncode
        raise _ChildError(f"ended by {signal.Signals(number).name}", by_model=number in CRASHES)
    if child.returncode:
        lines = child.stderr.strip().splitlines() or [f"exit status {child.returncode}"]
        raise _ChildError(f"failed: {lines[-1]}")


def _build(model: str, file: Path, note: Path, settings: dict[str, Any]) -> WeightCache:
    tmp = _leftovers.temporary(file)
    try:
        fd = _leftovers.create(tmp)
        try:
            _run_child(model, fd, settings)
            os.fsync(fd)
        finally:
            os.close(fd)
        content = _index_digest(tmp)
        if content is None:
            raise OSError("the file has no usable index")
        os.replace(tmp, file)
        _leftovers.write(note, json.dumps(content))
        return WeightCache(str(file))
    except OSError as error:
        return WeightCache(problem=f"weight cache {file}: {error}")
    except _ChildError as error:
        if error.by_model:
            _try_without(model, settings)
        return WeightCache(problem=f"weight cache {file}: building it {error}")
    finally:
        with contextlib.suppress(OSError):
            tmp.unlink()


def _try_without(model: str, settings: dict[str, Any]) -> None:
    """Was it the cache or the model? A sound model runs when its weights go to memory."""
    try:
        _run_child(model, -1, settings)
    except _ChildError as error:
        if error.by_model:
            raise ValueError(f"decoder file {model!r}: a trial run of it {error}") from None
