"""docs/dbus.md says what the daemon does, and its examples run."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from integration.harness import System, environment

from edgettsd.bus import INTERFACE, OPTION_TYPES
from edgettsd.bus._contract import Contract
from edgettsd.ctl._exit import Exit
from edgettsd.ctl._main import parser
from edgettsd.engine._api import Priority, Reason, State
from edgettsd.errors import ALL_ERRORS

ROOT = Path(__file__).parents[2]
DBUS = (ROOT / "docs" / "dbus.md").read_text()


def _section(title: str) -> str:
    """The text under a heading, with its subsections."""
    match = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^#{{1,2}} |\Z)", DBUS, re.MULTILINE | re.DOTALL)
    assert match is not None, f"docs/dbus.md has no section {title}"
    return match[2]


def _first_column(text: str) -> list[str]:
    """What stands first in the rows of the tables, without the heads."""
    rows = re.findall(r"^\| (.+?) \|", text, re.MULTILINE)
    return [row.strip("`") for row in rows if row.startswith("`") or row.isdecimal()]


def test_every_member_is_documented_and_no_other() -> None:
    interface = ET.fromstring((files("edgettsd.bus") / f"{INTERFACE}.xml").read_text()).find("interface")
    assert interface is not None
    methods = {node.attrib["name"] for node in interface.findall("method")}
    signals = {node.attrib["name"] for node in interface.findall("signal")}
    properties = {node.attrib["name"]: node.attrib["type"] for node in interface.findall("property")}
    assert (
        set(re.findall(r"\b([A-Z]\w+)\(", " ".join(re.findall(r"^### .*", _section("Methods"), re.M))))
        == methods
    )
    assert set(re.findall(r"^### (\w+)", _section("Signals"), re.M)) == signals
    assert dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", _section("Properties"), re.M)) == properties


def test_options_are_documented_with_their_types() -> None:
    documented = dict(re.findall(r"^\| `(\w+)` \| (\w) \|", _section("Options"), re.M))
    assert documented == OPTION_TYPES | {"format": "s"}
    assert _first_column(_section("Options").split("### Priorities")[1]) == [p.name.lower() for p in Priority]


def test_keys_of_signals_and_voices_are_documented_with_their_types() -> None:
    keys = Contract.load().keys
    assert dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", _section("Signals"), re.M)) == keys["Finished"]
    for title in ("ListVoices() -> aa{sv} voices", "Started(t id, a{sv} info)"):
        assert dict(re.findall(r"`(\w+)` \((\w+)[);:]", _section(title))) == keys[title.split("(")[0]]


def test_reasons_states_and_errors_are_documented() -> None:
    reasons = _section("Signals").split("`stats`")[0]
    assert _first_column(reasons) == [reason.value for reason in Reason]
    assert all(f"`{state.value}`" in _section("Properties") for state in State)
    assert _first_column(_section("Errors")) == [error.name for error in ALL_ERRORS]


def test_commands_and_exit_statuses_are_documented() -> None:
    section = _section("edgettsctl")
    assert [int(row) for row in _first_column(section) if row.isdecimal()] == list(Exit)
    actions = [a for a in parser()._actions if isinstance(a, argparse._SubParsersAction)]
    assert set(re.findall(r"`edgettsctl (\w+)", section)) == set(actions[0].choices)


def test_busctl_examples_run(start: Callable[..., System]) -> None:
    system = start(engine="fake:1000")
    examples = "\n".join(re.findall(r"^```sh\n(.*?)^```", DBUS, re.MULTILINE | re.DOTALL))
    lines = [line for line in examples.splitlines() if not line.startswith("edgettsctl")]
    assert sum(line.startswith("busctl") for line in lines) >= 8
    # The address has to be said: a private bus is neither of the two that busctl knows.
    script = re.sub(r"^busctl ", f"busctl --address={system.bus.address} ", "\n".join(lines), flags=re.M)
    done = subprocess.run(
        ["bash", "-c", "set -e\n" + script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert 's "fake"' in done.stdout and "u 24000" in done.stdout


def test_edgettsctl_examples_run(start: Callable[..., System], tmp_path: Path) -> None:
    system = start(engine="fake:1000")
    lines = [line for line in DBUS.splitlines() if line.startswith("edgettsctl ")]
    assert len(lines) >= 4
    function = (
        'edgettsctl() { "$PYTHON" -c "import sys; from edgettsd.ctl import main; sys.exit(main())" "$@"; }\n'
    )
    done = subprocess.run(
        ["bash", "-c", "set -e\n" + function + "\n".join(lines)],
        cwd=tmp_path,
        env=environment(PYTHON=sys.executable, EDGETTSD_BUS_ADDRESS=system.bus.address),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "kettle.wav").stat().st_size > 44
