"""Regular expressions that count the steps of a backtracking matcher: bounds that no machine's speed changes.

The matcher walks the tree that Python's own parser makes, tries what Python's matcher tries in the same
order, and checks that it found the same end.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

Continue = Callable[[int], int | None]
SHORT = 64
_SINGLE = (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN)


def _stay(at: int) -> int | None:
    return at


class Counted:
    """One pattern in the place of a compiled one; `steps` is what it has taken so far."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._real = pattern
        self._tree = list(parser.parse(pattern.pattern, pattern.flags))
        self._ignore_case = bool(pattern.flags & re.IGNORECASE)
        self._text = ""
        self._groups: dict[int, tuple[int, int]] = {}
        self.steps = 0

    def match(self, text: str, at: int = 0) -> re.Match[str] | None:
        """As of a pattern."""
        match = self._real.match(text, at)
        self._text, self._groups = text, {}
        # The walk is as deep as the text is long; other code relies on the limit that was.
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(100_000)
        try:
            end = self._sequence(self._tree, 0, at, _stay)
        finally:
            sys.setrecursionlimit(limit)
        assert end == (match.end() if match else None), (self._real.pattern, text, at)
        return match

    def fullmatch(self, text: str) -> re.Match[str] | None:
        """As of a pattern; all it costs is as long as `text`, which the callers bound."""
        self.steps += len(text)
        return self._real.fullmatch(text)

    def search(self, text: str, at: int = 0) -> re.Match[str] | None:
        """As of a pattern; in a short text its work is bounded and not looked at."""
        if len(text) <= SHORT:
            self.steps += SHORT
            return self._real.search(text, at)
        for begin in range(at, len(text) + 1):
            if match := self.match(text, begin):
                return match
        return None

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """As of a pattern."""
        at = 0
        while at <= len(text) and (match := self.search(text, at)):
            yield match
            at = max(match.end(), match.start() + 1)

    def findall(self, text: str) -> list[str]:
        """As of a pattern with one group or none."""
        return [match[match.re.groups] for match in self.finditer(text)]

    def sub(self, instead: Callable[[re.Match[str]], str], text: str) -> str:
        """As of a pattern."""
        out, at = [], 0
        for match in self.finditer(text):
            out += [text[at : match.start()], instead(match)]
            at = match.end()
        return "".join([*out, text[at:]])

    def _sequence(self, items: list[Any], index: int, at: int, go_on: Continue) -> int | None:
        if index == len(items):
            return go_on(at)
        return self._item(items[index], at, lambda end: self._sequence(items, index + 1, end, go_on))

    def _item(self, item: Any, at: int, go_on: Continue) -> int | None:
        kind, value = item
        self.steps += 1
        if kind in _SINGLE:
            return (
                go_on(at + 1) if at < len(self._text) and self._takes(kind, value, self._text[at]) else None
            )
        if kind is op.BRANCH:
            return next(
                (end for way in value[1] if (end := self._sequence(list(way), 0, at, go_on)) is not None),
                None,
            )
        if kind is op.SUBPATTERN:
            return self._group(value[0], list(value[3]), at, go_on)
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            return self._repeat(kind, value, at, go_on)
        if kind is op.ATOMIC_GROUP:
            end = self._sequence(list(value), 0, at, _stay)
            return None if end is None else go_on(end)
        if kind is op.AT:
            return go_on(at) if self._is_at(value, at) else None
        if kind in (op.ASSERT, op.ASSERT_NOT):
            begin = at if value[0] > 0 else at - value[1].getwidth()[0]
            found = begin >= 0 and self._sequence(list(value[1]), 0, begin, _stay) is not None
            return go_on(at) if found == (kind is op.ASSERT) else None
        assert kind is op.GROUPREF, kind
        begin, end = self._groups[value]
        self.steps += end - begin
        same = self._text.startswith(self._text[begin:end], at)
        return go_on(at + end - begin) if same else None

    def _group(self, number: int | None, items: list[Any], at: int, go_on: Continue) -> int | None:
        if number is None:
            return self._sequence(items, 0, at, go_on)
        before = self._groups.get(number)

        def closed(end: int) -> int | None:
            self._groups[number] = (at, end)
            return go_on(end)

        found = self._sequence(items, 0, at, closed)
        if found is None and before is not None:
            self._groups[number] = before
        return found

    def _repeat(self, kind: Any, value: Any, at: int, go_on: Continue) -> int | None:
        low, high, items = value[0], value[1], list(value[2])
        if kind is op.MIN_REPEAT:
            raise NotImplementedError("lazy repetitions are not used")
        if len(items) == 1 and items[0][0] in _SINGLE:
            inner_kind, inner = items[0]
            end = at
            while (
                end < len(self._text) and end - at < high and self._takes(inner_kind, inner, self._text[end])
            ):
                end += 1
            self.steps += end - at
            for stop in range(end, at + low - 1, -1):
                self.steps += 1
                found = go_on(stop)
                if found is not None or kind is op.POSSESSIVE_REPEAT:
                    return found
            return None
        if kind is op.POSSESSIVE_REPEAT:
            count = 0
            while count < high and (end := self._sequence(items, 0, at, _stay)) is not None and end > at:
                at, count = end, count + 1
            return go_on(at) if count >= low else None
        return self._more(items, low, high, at, -1, go_on)

    def _more(
        self, items: list[Any], low: int, high: int, at: int, before: int, go_on: Continue
    ) -> int | None:
        """Once more if it can, else what follows; an empty repetition ends it."""
        self.steps += 1
        if high > 0 and at != before:
            found = self._sequence(
                items, 0, at, lambda end: self._more(items, max(low - 1, 0), high - 1, end, at, go_on)
            )
            if found is not None:
                return found
        return go_on(at) if low <= 0 else None

    def _takes(self, kind: Any, value: Any, c: str) -> bool:
        if kind is op.ANY:
            return c != "\n"
        if kind is op.IN:
            negated = value[0][0] is op.NEGATE
            return negated != any(self._in(part, c) for part in value[negated:])
        same = chr(value) == c or (self._ignore_case and chr(value).lower() == c.lower())
        return same == (kind is op.LITERAL)

    def _in(self, part: Any, c: str) -> bool:
        kind, value = part
        forms = {c, c.lower(), c.upper()} if self._ignore_case else {c}
        if kind is op.LITERAL:
            return chr(value) in forms
        if kind is op.RANGE:
            return any(len(form) == 1 and value[0] <= ord(form) <= value[1] for form in forms)
        assert kind is op.CATEGORY, kind
        return {
            op.CATEGORY_DIGIT: c.isdecimal(),
            op.CATEGORY_SPACE: c.isspace(),
            op.CATEGORY_NOT_SPACE: not c.isspace(),
            op.CATEGORY_WORD: c.isalnum() or c == "_",
            op.CATEGORY_NOT_WORD: not (c.isalnum() or c == "_"),
        }[value]

    def _is_at(self, place: Any, at: int) -> bool:
        text = self._text
        if place is op.AT_BEGINNING:
            return at == 0
        if place is op.AT_END:
            return at == len(text) or (at == len(text) - 1 and text[at] == "\n")
        assert place is op.AT_BOUNDARY, place
        sides = [
            bool(c) and (c.isalnum() or c == "_") for c in (text[max(0, at - 1) : at], text[at : at + 1])
        ]
        return sides[0] != sides[1]
