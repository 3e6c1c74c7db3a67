"""The reader's work is linear in the text: counted in steps of its patterns, not in time."""

from __future__ import annotations

import importlib
import pkgutil
import random
import re
from collections.abc import Callable

import pytest
from counted_patterns import Counted
from english_readings import well_formed

import edgettsd.frontends.english
from edgettsd.frontends.english import reader
from edgettsd.frontends.english.scan import Scan

# Patterns that the code compares matches with: they are counted where the scan looks.
COMPARED = {"_ISO", "_YEAR_FIRST", "_SLASHED", "_DASHED", "_TIME", "_HOUR", "_MONEY", "_MONEY_AFTER"}
MODULES = [
    importlib.import_module(f"edgettsd.frontends.english.{module.name}")
    for module in pkgutil.iter_modules(edgettsd.frontends.english.__path__)
]
Steps = Callable[[str], int]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    counted: dict[re.Pattern[str], Counted] = {}

    def of(pattern: re.Pattern[str]) -> Counted:
        return counted.setdefault(pattern, Counted(pattern))

    for module in MODULES:
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern) and name not in COMPARED:
                monkeypatch.setattr(module, name, of(value))
    ends = {
        name: of(pattern)
        for name, pattern in vars(importlib.import_module(f"{reader.__package__}.markup"))["_ENDS"].items()
    }
    monkeypatch.setattr(f"{reader.__package__}.markup._ENDS", ends)

    def look(scan: Scan, pattern: re.Pattern[str] | Counted) -> re.Match[str] | None:
        return (pattern if isinstance(pattern, Counted) else of(pattern)).match(scan.text, scan.at)

    def take(scan: Scan, pattern: re.Pattern[str] | Counted) -> re.Match[str] | None:
        match = look(scan, pattern)
        scan.at = match.end() if match else scan.at
        return match

    monkeypatch.setattr(Scan, "look", look)
    monkeypatch.setattr(Scan, "take", take)

    def count(text: str) -> int:
        before = sum(pattern.steps for pattern in counted.values())
        assert well_formed(reader.read(text))
        return sum(pattern.steps for pattern in counted.values()) - before

    return count


def random_units(count: int) -> list[str]:
    rng = random.Random(7)
    return [
        "".join(rng.choices("0123456789.,:;/-+$%^'@#()[] <>=&\"!aApPmMxXeEIVCZtooB–", k=rng.randint(1, 6)))
        for _ in range(count)
    ]


UNITS = [
    "1,1", "1,111", "a.a.", "www.,", "((((a", "1.1", "-1", "$", "A", "1", "'", "I'll ", "/a", "a@", "x1",
    "é", "^2", "1 1/", "V.V", "1:1", "-", "Mr. ", "aA", "1.", "St. ", "p. ", "1e", "I ", "\n", "a-", "+1 ",
    "http://", "<a", "<a ", "<a b=", "<a b='", "<!--", "<![CDATA[", "<script>", "</a", "<?", "<a@",
    "<https://", "&amp", "&#1", "a<b>", '<a b="c', "< ", "<<", "1-", "1–1-", "1 - ", "12:30-", "May 3-",
    "1/2-", "1/2/", "$1-", "5 kg-", "1st-", "Q1-", "A–", "Mon-", "10^", "1x10^", "1**", "x^", "2^31-", "1×",
    "00:", "00:1A:", "1A-", "f", "0f", "a1", "::", "1::", "550e8400-", "code 1", "code 1 ", "call 911 or ",
    "911 or ", "zip 9", "1234 ", "123 ", "1234-", "AB12 ", "42A ", "bus 42A", "C#", "A+", ".js", ".N", "*.",
    "#f", "U+", "0x", "0b1", "CA 9", "AA11 1", "@1.", "a.1", "é1", "1²", "number ",
]  # fmt: skip


@pytest.mark.parametrize("unit", [*UNITS, *random_units(12)])
def test_steps_are_linear(steps: Steps, unit: str) -> None:
    few, many = steps(unit * 40 + "a"), steps(unit * 120 + "a")
    # Quadratic work makes it 9 times as much; a look ahead of bounded length costs less in a short text.
    assert many < 5 * few + 1000, (few, many)


def test_plain_text_takes_few_steps(steps: Steps) -> None:
    text = "The kettle has been on for ten minutes, and the water is boiling now; please turn it off. "
    assert steps(text * 3) < 40 * len(text * 3)


def test_quadratic_patterns_are_noticed() -> None:
    bad = Counted(re.compile(r"[a-z]*[a-z]*!"))

    def cost(count: int) -> int:
        before = bad.steps
        assert bad.match("a" * count) is None
        return bad.steps - before

    assert cost(200) > 14 * cost(50)
