"""The engine: queue, pipeline and their interface. `Engine` is loaded on first use, so that the scripted
engine runs without the compiled kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgettsd.engine.engine import Engine as Engine

__all__ = ["Engine"]


def __getattr__(name: str) -> Any:
    if name == "Engine":
        from edgettsd.engine.engine import Engine

        return Engine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
