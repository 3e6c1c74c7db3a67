"""What the command line tools share: messages for people and a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn

EXIT_OK = 0
EXIT_INVALID = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def die(message: str, hint: str | None = None, code: int = EXIT_INVALID) -> NoReturn:
    """Print what went wrong, and what to do about it, on stderr and leave with `code`."""
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)
    raise SystemExit(code)


class Progress:
    """A progress bar in bytes on stderr; silent when stderr is not a terminal and `always` is false."""

    def __init__(self, total: int, title: str, always: bool = False) -> None:
        self._update: Callable[[int], object] | None = None
        self._close: Callable[[], object] | None = None
        if not (always or sys.stderr.isatty()):
            return
        try:
            from tqdm import tqdm
        except ImportError:
            print(f"{title} ...", file=sys.stderr)
            return
        bar = tqdm(total=total, desc=title, unit="B", unit_scale=True, file=sys.stderr, leave=True)
        self._update, self._close = bar.update, bar.close

    def advance(self, count: int) -> None:
        """Count `count` more bytes as done."""
        if self._update is not None:
            self._update(count)

    def close(self) -> None:
        """Leave the bar as it stands."""
        if self._close is not None:
            self._close()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
