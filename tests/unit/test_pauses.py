"""Whose pauses are in force."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgettsd.engine.callers import NOBODY
from edgettsd.engine.pauses import Pauses

OWNERS = ("a", "b", "c")


def test_a_caller_has_one_pause_at_most():
    pauses = Pauses()
    pauses.add("a")
    pauses.add("a")
    pauses.release("a")
    assert not pauses and pauses.owners == ()


def test_speech_goes_on_when_the_last_pause_is_gone():
    pauses = Pauses()
    for owner in OWNERS:
        pauses.add(owner)
    pauses.release("b")
    pauses.gone("a")
    assert pauses and pauses.owners == ("c",)
    pauses.release("c")
    assert not pauses


def test_one_without_a_pause_ends_nobodys_and_no_other():
    pauses = Pauses()
    pauses.add("a")
    pauses.add(NOBODY)
    pauses.release("a")
    assert pauses.owners == (NOBODY,), "the caller's own goes first"
    pauses.add("b")
    pauses.release("c")
    assert pauses.owners == ("b",)
    pauses.release("c")
    assert pauses.owners == ("b",)


def test_one_that_leaves_does_not_end_nobodys():
    pauses = Pauses()
    pauses.add(NOBODY)
    pauses.gone("a")
    assert pauses.owners == (NOBODY,)
    pauses.clear()
    assert not pauses


@given(st.lists(st.tuples(st.sampled_from(["add", "release", "gone"]), st.sampled_from([NOBODY, *OWNERS]))))
def test_nobody_but_the_owner_ends_a_callers_pause(steps):
    pauses = Pauses()
    for action, owner in steps:
        before = set(pauses.owners)
        getattr(pauses, action)(owner)
        after = set(pauses.owners)
        assert before - after <= {owner, NOBODY}
        assert after - before <= ({owner} if action == "add" else set())
        assert len(pauses.owners) == len(after)
