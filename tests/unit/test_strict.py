"""Type, range and choice of values from outside: what is taken, and what a refusal says."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgettsd import strict
from edgettsd.strict import NotAllowedError, Range

ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=8),
    st.lists(st.one_of(st.integers(), st.booleans(), st.text(max_size=3)), max_size=4),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)


@pytest.mark.parametrize(
    ("check", "value", "allowed"),
    [
        (lambda v: strict.text(v), 1, "a text"),
        (lambda v: strict.text(v), b"x", "a text"),
        (lambda v: strict.text(v, empty=False), "", "a text that is not empty"),
        (lambda v: strict.text(v), "a\0", "a text without NUL characters"),
        (lambda v: strict.text(v, ("", "a")), "b", 'one of "", a'),
        (lambda v: strict.flag(v), 1, "true or false"),
        (lambda v: strict.whole(v), True, "a whole number"),
        (lambda v: strict.whole(v), 1.0, "a whole number"),
        (lambda v: strict.whole(v, Range(1, 3)), 0, "a whole number from 1 to 3"),
        (lambda v: strict.whole(v, Range(1)), 0, "a whole number from 1"),
        (lambda v: strict.real(v, Range(0, 1, open_low=True)), 0, "a number above 0 to 1"),
        (lambda v: strict.real(v), math.nan, "a number"),
        (lambda v: strict.real(v), math.inf, "a number"),
        (lambda v: strict.real(v), False, "a number"),
        (lambda v: strict.real(v), 10**400, "a number"),
        (lambda v: strict.real(v), "1", "a number"),
        (lambda v: strict.wholes(v, Range(1, 3)), [1, 4], "a list of whole numbers from 1 to 3"),
        (lambda v: strict.wholes(v), [True], "a list of whole numbers"),
        (lambda v: strict.wholes(v), (1,), "a list of whole numbers"),
        (lambda v: strict.wholes(v, empty=False), [], "a list of whole numbers"),
        (lambda v: strict.wholes(v, most=2), [1, 2, 3], "a list of at most 2 numbers, not 3"),
        (lambda v: strict.texts(v), ["a", ""], "a list of texts"),
    ],
)
def test_a_refusal_says_what_is_allowed(check: Any, value: Any, allowed: str) -> None:
    with pytest.raises(NotAllowedError) as caught:
        check(value)
    assert str(caught.value) == allowed


def test_what_is_allowed_comes_back_as_it_is() -> None:
    assert strict.text("") == "" and strict.text("a", ("a", "b")) == "a"
    assert strict.flag(False) is False
    assert strict.whole(3, Range(3, 3)) == 3
    assert strict.real(3, Range(3, 3)) == 3.0 and isinstance(strict.real(3), float)
    assert strict.wholes([]) == () and strict.wholes([2, 1], most=2) == (2, 1)
    assert strict.texts(["a"]) == ("a",)


def test_choices_are_told_apart() -> None:
    with pytest.raises(NotAllowedError) as caught:
        strict.text("c", ("a", "b"))
    assert caught.value.choices == ("a", "b")
    with pytest.raises(NotAllowedError) as caught:
        strict.text(1, ("a", "b"))
    assert caught.value.choices == ()


@given(ANYTHING)
def test_anything_is_taken_in_its_type_or_refused(value: Any) -> None:
    checks = {
        str: strict.text,
        bool: strict.flag,
        int: strict.whole,
        float: strict.real,
        tuple: strict.wholes,
    }
    for kind, check in checks.items():
        try:
            assert type(check(value)) is kind
        except NotAllowedError:
            continue
    assert len(strict.shown(value)) <= 80
