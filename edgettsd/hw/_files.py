"""Reading small kernel files below a root folder; what is missing or unreadable is an absent value."""

from __future__ import annotations

from pathlib import Path

from edgettsd.config import parse_cpus


class Tree:
    """Files of /proc, /sys and /dev below `root`."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def text(self, path: str) -> str:
        """Content without surrounding blanks and NULs; empty when there is none."""
        try:
            data = (self.root / path).read_bytes()[:1_000_000]
        except OSError:
            return ""
        return data.decode("utf-8", "replace").strip(" \t\n\0")

    def number(self, path: str, default: int = 0) -> int:
        """A file's integer; `default` when there is none."""
        try:
            return int(self.text(path))
        except ValueError:
            return default

    def cpus(self, path: str) -> tuple[int, ...]:
        """A CPU list such as 0-3,8; empty when there is none."""
        try:
            return parse_cpus(self.text(path))
        except ValueError:
            return ()

    def numbers(self, path: str) -> tuple[int, ...]:
        """Integers with blanks between them, as cpufreq writes CPUs; empty when there are none."""
        try:
            return tuple(sorted(map(int, self.text(path).split())))
        except ValueError:
            return ()

    def names(self, path: str, pattern: str = "*") -> list[str]:
        """Entries of a folder that match, in natural order."""
        try:
            found = [entry.name for entry in (self.root / path).glob(pattern)]
        except OSError:
            return []
        return sorted(found, key=lambda name: (len(name), name))

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return (self.root / path).exists()
