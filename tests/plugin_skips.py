"""pytest plugin: a test that is skipped without being listed here fails.

A suite that skips quietly proves nothing; so every skip needs an entry with its reason.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Generator
from typing import Any

import pytest

# Pattern of the node id -> why the test cannot run there.
ALLOWED: dict[str, str] = {
    "tests/integration/test_systemd_container.py::*": "needs root, systemd-nspawn and mmdebstrap",
}


def _reason(report: Any) -> str:
    """The text that was given with the skip."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    return str(getattr(report, "wasxfail", "") or report.longrepr or "no reason")


def _refuse_unlisted(report: Any) -> None:
    """Turn a skip without an entry into a failure."""
    if report.outcome != "skipped" or any(fnmatch.fnmatchcase(report.nodeid, p) for p in ALLOWED):
        return
    reason = _reason(report)
    report.outcome = "failed"
    report.longrepr = f"{report.nodeid} was skipped and is not listed in tests/plugin_skips.py: {reason}"
    if hasattr(report, "wasxfail"):
        del report.wasxfail


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, Any, None]:
    """Check each phase of each test."""
    outcome = yield
    _refuse_unlisted(outcome.get_result())


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, None]:
    """Check skips of whole modules."""
    outcome = yield
    _refuse_unlisted(outcome.get_result())


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List the skips that are allowed, each with its entry's reason."""
    for report in terminalreporter.stats.get("skipped", []):
        why = next(
            reason for pattern, reason in ALLOWED.items() if fnmatch.fnmatchcase(report.nodeid, pattern)
        )
        terminalreporter.line(f"SKIPPED {report.nodeid}: {why}")
