"""pytest plugin: what the whole suite takes from its surroundings.

Tests marked `official_code` need `.venv-eval`, which takes minutes to make. Without it they are left out, and
the end of the run says which. In CI they are never left out.

No Hypothesis test may depend on how fast its examples are made or run: one profile holds for all of them.
"""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

EVAL = Path(__file__).resolve().parents[1] / ".venv-eval"
MARK = "official_code"
LEFT_OUT = pytest.StashKey[list[str]]()

# On top of what is there: in CI Hypothesis itself derandomizes.
hypothesis.settings.register_profile(
    "edgettsd",
    hypothesis.settings(),
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("edgettsd")


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", f"{MARK}: needs .venv-eval, which tools/oracle --prepare makes")
    config.stash[LEFT_OUT] = []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what has no environment."""
    # The interpreter alone says little: the installation may have been interrupted.
    if os.environ.get("CI") or (EVAL / ".complete").exists():
        return
    out = [item for item in items if item.get_closest_marker(MARK)]
    if out:
        config.stash[LEFT_OUT] = [item.nodeid for item in out]
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if not item.get_closest_marker(MARK)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """List what was left out."""
    for nodeid in config.stash[LEFT_OUT]:
        terminalreporter.line(f"LEFT OUT {nodeid}: needs .venv-eval (tools/oracle --prepare, some minutes)")
