"""What README.md says about keys, options and files is so."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from edgettsd import config, daemon
from edgettsd.ctl._main import parser
from edgettsd.models import default

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def _section(title: str) -> str:
    match = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL)
    assert match is not None, f"README.md has no section {title}"
    return match[1]


CHANGES = _section("How do I change ...")
CODE = re.findall(r"`([^`\n]+)`", README)


def test_every_key_exists() -> None:
    keys = {f"[{section}] {key}" for section, key in re.findall(r"`\[(\w+)\] (\w+)", README)}
    sample = config.sample()
    known = {
        f"[{section}] {key}"
        for section, body in re.findall(r"^\[(\w+)\]\n(.*?)(?=^\[|\Z)", sample, re.MULTILINE | re.DOTALL)
        for key in re.findall(r"^#(\w+) = ", body, re.MULTILINE)
    }
    assert keys <= known, keys - known
    assert len(re.findall(r"^\| [a-z]", CHANGES, re.MULTILINE)) >= 10


def test_every_section_of_the_sample_is_mentioned() -> None:
    mentioned = set(re.findall(r"`\[(\w+)\]", CHANGES))
    assert mentioned == {"engine", "voice", "model", "audio", "log"}


@pytest.mark.parametrize("command", [c for c in CODE if c.startswith("edgettsctl ")])
def test_every_command_of_the_client_is_one(command: str) -> None:
    words = command.split()[1:]
    text = [] if words[0] != "speak" or {"TEXT", "-f"} & set(words) else ["hello"]
    if "speak" in words and not words[1:]:
        text = ["hello"]
    parsed = parser().parse_args([*words, *text])
    assert isinstance(parsed, argparse.Namespace)


DAEMON = " ".join(code for code in CODE if code.startswith("edgettsd "))


@pytest.mark.parametrize("option", sorted(set(re.findall(r"--[a-z-]+", DAEMON))))
def test_every_option_of_the_daemon_is_one(option: str) -> None:
    assert option in daemon._parser()._option_string_actions


def test_the_places_are_the_ones_of_the_code() -> None:
    assert f"`{default.USUAL}`" in CHANGES
    assert f"`{config.DEFAULT_PATH}`" in CHANGES and f"`{config.DEFAULT_PATH}.d/`" in CHANGES


@pytest.mark.parametrize("tool", sorted({c.split()[0] for c in CODE if c.startswith("tools/")}))
def test_every_tool_is_there(tool: str) -> None:
    assert (ROOT / tool).exists()


@pytest.mark.parametrize("page", sorted(set(re.findall(r"\]\((?!http)([^)#]+)", README))))
def test_every_link_leads_somewhere(page: str) -> None:
    assert (ROOT / page).exists()
