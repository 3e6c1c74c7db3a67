"""Several listeners of an engine, and callers that are no connections of the bus."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from engine_rig import Rig, drive, with_config

from edgettsd.engine._api import Priority, Reason, State
from edgettsd.engine.callers import NOBODY, Caller
from edgettsd.engine.events import Listeners
from edgettsd.errors import NotFoundError, QueueFullError

HTTP, OTHER = Caller.at("http", "10.0.0.7:51234"), Caller.at("http", "10.0.0.8:51234")


def test_every_listener_hears_every_event_in_order() -> None:
    """Beside the rig, which is the first listener: a second and a third one hear the same."""
    heard: list[tuple[str, str, int]] = []

    def listener(name: str) -> dict[str, Any]:
        return {
            "started": lambda utterance, info: heard.append((name, "started", utterance)),
            "finished": lambda utterance, reason, stats: heard.append((name, reason.value, utterance)),
        }

    async def test(rig: Rig) -> None:
        rig.engine.subscribe(**listener("b"))
        end = rig.engine.subscribe(**listener("c"))
        first = rig.say()
        assert await rig.ended(first) is Reason.COMPLETED
        end()
        end()
        second = rig.say()
        assert await rig.ended(second) is Reason.COMPLETED

    rig = drive(test)
    assert heard == [
        *[(name, event, 1) for event in ("started", "completed") for name in "bc"],
        ("b", "started", 2),
        ("b", "completed", 2),
    ]
    assert rig.started == [1, 2]


def test_changed_is_told_to_all() -> None:
    states: list[State] = []

    async def test(rig: Rig) -> None:
        rig.engine.subscribe(changed=lambda: states.append(rig.engine.state))
        await rig.ended(rig.say())

    drive(test)
    assert State.SPEAKING in states and states[-1] is State.STOPPING


def test_a_listener_that_raises_harms_nobody_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[int] = []

    def broken(*event: Any) -> None:
        raise RuntimeError("a broken listener")

    async def test(rig: Rig) -> None:
        rig.engine.subscribe(started=broken, finished=broken, changed=broken)
        rig.engine.subscribe(finished=lambda utterance, reason, stats: heard.append(utterance))
        assert await rig.ended(rig.say()) is Reason.COMPLETED
        assert await rig.ended(rig.say()) is Reason.COMPLETED

    with caplog.at_level(logging.ERROR):
        drive(test)
    assert heard == [1, 2]
    assert "a listener of the engine failed" in caplog.text and "a broken listener" in caplog.text


def test_who_comes_or_goes_while_an_event_is_told() -> None:
    listeners, heard = Listeners(), list[str]()

    def first() -> None:
        heard.append("first")
        end_second()
        listeners.subscribe(changed=lambda: heard.append("late"))

    listeners.subscribe(changed=first)
    end_second = listeners.subscribe(changed=lambda: heard.append("second"))
    listeners.changed()
    assert heard == ["first"], "the second has gone, the late one has not heard of this event"
    listeners.changed()
    assert heard == ["first", "first", "late"]


# --- callers ----------------------------------------------------------------------------------------------


def test_a_caller_is_told_apart_by_its_door_and_name() -> None:
    assert Caller.bus(":1.42") == ":1.42" and Caller.bus(":1.42").door == "bus"
    assert HTTP == "http/10.0.0.7:51234" and HTTP.door == "http" and HTTP != OTHER
    assert Caller.at("mqtt", ":1.42") != Caller.bus(":1.42")
    assert NOBODY == "" and NOBODY.door == ""


@pytest.mark.parametrize(
    ("door", "name", "message"),
    [
        ("", "a", "door ''"),
        ("Http", "a", "door 'Http': allowed are small letters, digits and '-'"),
        ("a/b", "c", "door 'a/b'"),
        (":1", "a", "door ':1'"),
        ("http", "", "name '': allowed are 1 to 200 visible ASCII characters"),
        ("http", "a\nb", "name 'a"),
        ("http", "a" * 201, "name 'aaa"),
    ],
)
def test_what_is_no_caller_is_refused(door: str, name: str, message: str) -> None:
    with pytest.raises(ValueError, match="allowed") as refused:
        Caller.at(door, name)
    assert message in str(refused.value)
    with pytest.raises(ValueError, match="is no unique name"):
        Caller.bus("org.example.Name")


def test_utterances_and_pauses_belong_to_callers_from_any_door() -> None:
    async def test(rig: Rig) -> None:
        engine = rig.engine
        mine = rig.say(client=HTTP, client_bound=True)
        waiting = rig.say(client=HTTP)
        theirs = rig.say(client=Caller.bus(":1.7"))
        for stranger in (OTHER, Caller.bus(":1.7"), NOBODY):
            with pytest.raises(NotFoundError):
                engine.abort(mine, stranger)
        engine.pause(HTTP)
        engine.pause(Caller.bus(":1.7"))
        assert engine.paused_by == (HTTP, ":1.7") and engine.stats()["paused_by"] == [HTTP, ":1.7"]
        engine.client_gone(HTTP)
        engine.resume(Caller.bus(":1.7"))
        assert await rig.ended(mine) is Reason.ABORTED
        assert await rig.ended(waiting) is Reason.COMPLETED, "it was not bound to its client"
        assert await rig.ended(theirs) is Reason.COMPLETED

    drive(test)


def test_the_limit_of_a_caller_is_each_callers_own() -> None:
    async def test(rig: Rig) -> None:
        rig.engine.pause()
        for _ in range(2):
            rig.say(client=HTTP, priority=Priority.MESSAGE)
        with pytest.raises(QueueFullError, match="2 utterances of this caller wait already"):
            rig.say(client=HTTP)
        rig.say(client=OTHER)

    drive(test, config=with_config(client_limit=2))
