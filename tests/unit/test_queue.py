"""The utterance queue: order, classes, limits, ownership."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgettsd.engine._api import Priority
from edgettsd.engine.queue import HISTORY, UtteranceQueue
from edgettsd.errors import NotFoundError, QueueFullError

IM, M, T, N, P = Priority


def fill(queue: UtteranceQueue[str], *priorities: Priority, client: str = ":1.1") -> list[int]:
    return [queue.put(client, priority, priority.name)[0].id for priority in priorities]


def ids(entries) -> list[int]:
    return [entry.id for entry in entries]


def test_ids_ascend_from_one_and_order_is_class_then_arrival():
    queue: UtteranceQueue[str] = UtteranceQueue()
    assert fill(queue, P, M, IM, M, T, IM) == [1, 2, 3, 4, 5, 6]
    assert ids(queue.waiting) == [3, 6, 2, 4, 5, 1]


def test_take_and_finish():
    queue: UtteranceQueue[str] = UtteranceQueue()
    assert queue.take() is None
    fill(queue, M, M)
    first = queue.take()
    assert first is not None and first.id == 1 and queue.active is first and len(queue) == 1
    assert queue.take() is None
    assert queue.finish() is first and queue.active is None
    with pytest.raises(RuntimeError):
        queue.finish()


def test_messages_wait_for_each_other():
    queue: UtteranceQueue[str] = UtteranceQueue()
    fill(queue, M)
    queue.take()
    new, replaced = queue.put(":1.2", M, "x")
    assert replaced == [] and ids(queue.waiting) == [new.id]


@pytest.mark.parametrize(
    "active, arriving, ends",
    [
        (IM, IM, False),
        (IM, M, False),
        (IM, T, False),
        (IM, P, False),
        (M, IM, False),
        (M, M, False),
        (M, T, False),
        (M, P, False),
        (T, IM, True),
        (T, M, True),
        (T, T, True),
        (T, P, False),
        (N, IM, True),
        (N, M, True),
        (N, T, True),
        (N, N, True),
        (N, P, False),
        (P, IM, True),
        (P, M, True),
        (P, T, True),
        (P, N, False),
        (P, P, False),
    ],
)
def test_what_an_arrival_does_to_the_active_one(active, arriving, ends):
    queue: UtteranceQueue[str] = UtteranceQueue()
    fill(queue, active)
    entry = queue.take()
    new, replaced = queue.put(":1.2", arriving, "new")
    assert (entry in replaced) is ends
    assert queue.active is entry, "it stays active until the engine has stopped it"
    assert ids(queue.waiting) == [new.id]


@pytest.mark.parametrize(
    "waiting, arriving, ends",
    [
        (IM, IM, False),
        (M, IM, False),
        (T, IM, False),
        (P, IM, False),
        (M, M, False),
        (T, M, False),
        (P, M, False),
        (T, T, True),
        (P, T, False),
        (P, P, True),
        (M, T, False),
        (M, P, False),
    ],
)
def test_what_an_arrival_does_to_a_waiting_one(waiting, arriving, ends):
    queue: UtteranceQueue[str] = UtteranceQueue()
    fill(queue, IM)
    queue.take()
    old = fill(queue, waiting)
    new, replaced = queue.put(":1.2", arriving, "new")
    assert ids(replaced) == (old if ends else [])
    assert (old[0] in ids(queue.waiting)) is not ends
    assert new.id in ids(queue.waiting)


@pytest.mark.parametrize("busy", [IM, M, T])
@pytest.mark.parametrize("active", [True, False])
def test_a_notification_is_dropped_when_something_higher_is_there(busy, active):
    queue: UtteranceQueue[str] = UtteranceQueue(limit=1)
    fill(queue, busy)
    if active:
        queue.take()
    new, replaced = queue.put(":1.2", N, "new")
    assert replaced == [new] and new not in queue.waiting
    assert queue.find(new.id, ":1.2") is None


def test_a_waiting_notification_goes_when_a_message_comes():
    queue: UtteranceQueue[str] = UtteranceQueue()
    old = fill(queue, N)
    _, replaced = queue.put(":1.1", M, "new")
    assert ids(replaced) == old


@pytest.mark.parametrize(
    "arriving, gone",
    [
        (IM, [M, T, N, P]),
        (M, [M, T, N, P]),
        (T, [T, N, P]),
        (P, [P]),
    ],
)
def test_interrupt_replaces_its_class_and_below_but_never_important(arriving, gone):
    queue: UtteranceQueue[str] = UtteranceQueue()
    fill(queue, IM, M, T, P)
    before = {entry.id: entry for entry in queue.waiting}
    new, replaced = queue.put(":1.2", arriving, "new", interrupt=True)
    assert {e.priority for e in replaced} == set(gone) - {N}
    assert set(ids(queue.waiting)) == set(before) - set(ids(replaced)) | {new.id}


def test_interrupt_ends_the_active_message():
    queue: UtteranceQueue[str] = UtteranceQueue()
    fill(queue, M, M, M)
    active = queue.take()
    new, replaced = queue.put(":1.2", M, "new", interrupt=True)
    assert ids(replaced) == [1, 2, 3] and replaced[0] is active
    assert ids(queue.waiting) == [new.id]


def test_limits_refuse_and_change_nothing():
    queue: UtteranceQueue[str] = UtteranceQueue(limit=3, per_client=2)
    fill(queue, M, M, client="a")
    with pytest.raises(QueueFullError, match="limit for one caller is 2"):
        queue.put("a", M, "x")
    assert fill(queue, M, client="b") == [3], "a refused utterance takes no id"
    with pytest.raises(QueueFullError, match="limit is 3"):
        queue.put("c", IM, "x")
    assert ids(queue.waiting) == [1, 2, 3]


def test_a_class_is_served_for_the_device_first_then_by_arrival():
    queue: UtteranceQueue[str] = UtteranceQueue()
    for priority, render in ((M, True), (P, False), (M, False), (IM, True), (M, True), (M, False)):
        queue.put("a", priority, "x", render=render)
    assert ids(queue.waiting) == [4, 3, 6, 1, 5, 2]


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("render", [True, False])
@pytest.mark.parametrize("old", Priority)
@pytest.mark.parametrize("new", Priority)
@pytest.mark.parametrize("interrupt", [True, False])
def test_renders_and_speech_for_the_device_never_end_each_other(new, old, render, active, interrupt):
    queue: UtteranceQueue[str] = UtteranceQueue()
    queue.put("a", old, "old", render=not render)
    if active:
        queue.take()
    entry, replaced = queue.put("a", new, "new", render=render, interrupt=interrupt)
    assert replaced == []
    assert entry in queue.waiting


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("old", Priority)
@pytest.mark.parametrize("new", Priority)
def test_renders_never_end_each_other(new, old, active):
    queue: UtteranceQueue[str] = UtteranceQueue()
    queue.put("a", old, "old", render=True)
    if active:
        queue.take()
    assert queue.put("a", new, "new", render=True)[1] == []
    assert queue.put("b", new, "new", render=True, interrupt=True)[1] == [], "of another caller"


def test_interrupt_ends_the_callers_own_renders_of_its_class_and_below_but_never_important():
    queue: UtteranceQueue[str] = UtteranceQueue()
    for priority in Priority:
        queue.put("a", priority, "old", render=True)
    assert queue.take() is not None, "the important one"
    _, replaced = queue.put("a", T, "new", render=True, interrupt=True)
    assert [entry.priority for entry in replaced] == [T, N, P]
    _, replaced = queue.put("a", IM, "new", render=True, interrupt=True)
    assert [entry.priority for entry in replaced] == [M, T]
    assert queue.active is not None and queue.active.priority is IM


def test_what_is_put_back_goes_on_before_those_that_came_later():
    queue: UtteranceQueue[str] = UtteranceQueue()
    with pytest.raises(RuntimeError, match="put_back"):
        queue.put_back()
    first = queue.put("a", M, "first", render=True)[0]
    second = queue.put("a", M, "second", render=True)[0]
    queue.take()
    speech = queue.put("b", M, "speech")[0]
    assert queue.put_back() is first and queue.active is None
    assert list(queue.waiting) == [speech, first, second]
    assert queue.take(lambda item: item != "speech") is first
    assert queue.first(lambda item: item == "second") is second and queue.first(lambda item: False) is None
    queue.finish()
    assert queue.take() is speech


def test_the_active_one_does_not_count_and_replaced_ones_make_room():
    queue: UtteranceQueue[str] = UtteranceQueue(limit=1, per_client=1)
    fill(queue, M)
    queue.take()
    fill(queue, M)
    with pytest.raises(QueueFullError):
        queue.put(":1.1", M, "x")
    new, replaced = queue.put(":1.1", M, "x", interrupt=True)
    assert ids(replaced) == [1, 2] and ids(queue.waiting) == [new.id]


@pytest.mark.parametrize("limits", [(0, 1), (1, 0)])
def test_limits_below_one_are_refused(limits):
    with pytest.raises(ValueError, match="at least 1"):
        UtteranceQueue(*limits)


def test_ownership():
    queue: UtteranceQueue[str] = UtteranceQueue()
    fill(queue, M, M, client="a")
    queue.take()
    assert queue.find(1, "a") is queue.active
    assert queue.find(2, "a") is queue.waiting[0]
    for utterance, client in ((1, "b"), (3, "a"), (0, "a")):
        with pytest.raises(NotFoundError, match=f"utterance {utterance}"):
            queue.find(utterance, client)
    queue.finish()
    assert queue.find(1, "a") is None
    with pytest.raises(NotFoundError):
        queue.find(1, "b")
    assert queue.remove(2).id == 2 and queue.find(2, "a") is None
    with pytest.raises(KeyError):
        queue.remove(2)


def test_clear_and_of_client():
    queue: UtteranceQueue[str] = UtteranceQueue()
    fill(queue, M, client="a")
    queue.take()
    fill(queue, M, T, client="a")
    fill(queue, M, client="b")
    assert ids(queue.of_client("a")) == [1, 2, 3]
    assert sorted(ids(queue.clear())) == [2, 3, 4]
    assert len(queue) == 0 and queue.active is not None


def test_history_is_bounded():
    queue: UtteranceQueue[str] = UtteranceQueue()
    for _ in range(HISTORY + 10):
        fill(queue, M)
        queue.take()
        queue.finish()
    assert queue.find(HISTORY + 10, ":1.1") is None
    with pytest.raises(NotFoundError):
        queue.find(1, ":1.1")


step = st.one_of(
    st.tuples(
        st.just("put"),
        st.sampled_from("abc"),
        st.sampled_from(list(Priority)),
        st.booleans(),
        st.booleans(),
    ),
    st.just(("take",)),
    st.just(("put_back",)),
    st.just(("finish",)),
    st.just(("clear",)),
    st.tuples(st.just("remove"), st.integers(1, 30)),
)


@given(st.lists(step, max_size=60))
def test_every_accepted_utterance_ends_exactly_once(steps):
    queue: UtteranceQueue[int] = UtteranceQueue(limit=5, per_client=3)
    accepted: set[int] = set()
    ended: list[int] = []
    for action, *args in steps:
        if action == "put":
            client, priority, interrupt, render = args
            try:
                new, replaced = queue.put(client, priority, 0, interrupt=interrupt, render=render)
            except QueueFullError:
                continue
            accepted.add(new.id)
            assert not any(e.priority is IM for e in replaced)
            assert all(e is new or e.render is render for e in replaced)
            ended += [e.id for e in replaced if e is not queue.active]
        elif action == "take":
            queue.take()
        elif action == "put_back" and queue.active:
            queue.put_back()
        elif action == "finish" and queue.active:
            ended.append(queue.finish().id)
        elif action == "clear":
            ended += ids(queue.clear())
        elif action == "remove":
            with contextlib.suppress(KeyError):
                ended.append(queue.remove(*args).id)
        waiting = queue.waiting
        # What was put back was accepted before.
        assert len(waiting) <= 6
        assert [e.place for e in waiting] == sorted(e.place for e in waiting)
        spoken = [e.priority for e in waiting if not e.render]
        assert spoken.count(T) <= 1 and spoken.count(P) <= 1
    alive = ids(queue.waiting) + ([queue.active.id] if queue.active else [])
    assert len(set(ended)) == len(ended)
    assert set(ended) | set(alive) == accepted and not set(ended) & set(alive)
