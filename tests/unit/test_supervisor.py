"""Background tasks that fail: logged, shown, started again, given up or the daemon's end."""

from __future__ import annotations

import ast
import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from edgettsd import messages
from edgettsd.supervisor import CALLBACKS, Supervisor

ROOT = Path(__file__).parents[2]


def drive(test: Callable[[Supervisor], Awaitable[None]], **options: float) -> None:
    """Run `test` with a supervisor, which is closed at its end and leaves nothing behind."""

    async def main() -> None:
        supervisor = Supervisor(**{"first_delay": 0.001, **options})
        supervisor.watch_loop()
        async with asyncio.timeout(20):
            await test(supervisor)
            await supervisor.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def failing(times: int, then: asyncio.Event | None = None) -> Callable[[], Awaitable[None]]:
    """Work that fails so many times with a reason, and then goes on for ever."""
    left = [times]

    async def work() -> None:
        await asyncio.sleep(0)
        if left[0] > 0:
            left[0] -= 1
            raise ValueError(f"reason\n{left[0]}")
        if then is not None:
            then.set()
        await asyncio.Event().wait()

    return work


def test_a_failed_task_is_logged_shown_and_started_again(caplog):
    async def test(supervisor: Supervisor) -> None:
        changes, runs = [], asyncio.Event()
        supervisor.on_changed = lambda: changes.append(supervisor.problems())
        supervisor.keep("thermal watch", failing(2, runs))
        assert supervisor.problems() == []
        await runs.wait()
        assert supervisor.report() == {
            "thermal watch": {"state": "running", "failures": 2, "reason": "ValueError: reason 0"}
        }
        assert supervisor.problems() == ["thermal watch: running, 2 failures, the last: ValueError: reason 0"]
        assert changes[0] == [
            "thermal watch: waiting to start again, 1 failure, the last: ValueError: reason 1"
        ]

    with caplog.at_level(logging.INFO):
        drive(test)
    failures = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.getMessage() for record in failures] == [
        "thermal watch failed: ValueError: reason 1",
        "thermal watch failed: ValueError: reason 0",
    ]
    assert {record.message_id for record in failures} == {messages.TASK_FAILED}
    assert all(record.exc_info for record in failures)


def test_the_pauses_grow(caplog):
    async def test(supervisor: Supervisor) -> None:
        runs = asyncio.Event()
        supervisor.keep("work", failing(4, runs))
        await runs.wait()

    with caplog.at_level(logging.INFO):
        drive(test, first_delay=0.01)
    starts = [r.getMessage() for r in caplog.records if "starts again" in r.getMessage()]
    assert starts == [f"work starts again in {delay} s" for delay in ("0.01", "0.02", "0.04", "0.08")]


def test_a_task_that_fails_time_and_again_is_given_up_and_the_daemon_goes_on():
    async def test(supervisor: Supervisor) -> None:
        given_up = asyncio.Event()
        supervisor.on_changed = lambda: (
            given_up.set() if supervisor.report()["work"]["state"] == "given up" else None
        )
        fatal = asyncio.ensure_future(supervisor.fatal())
        supervisor.keep("work", failing(99))
        await given_up.wait()
        assert supervisor.report()["work"]["failures"] == 3
        await asyncio.sleep(0.02)
        assert supervisor.report()["work"]["failures"] == 3
        assert not fatal.done()
        fatal.cancel()
        await asyncio.wait({fatal})

    drive(test, limit=3)


def test_a_vital_task_that_is_given_up_ends_the_daemon():
    async def test(supervisor: Supervisor) -> None:
        supervisor.keep("watchdog", failing(99), vital=True)
        error = await supervisor.fatal()
        assert str(error) == "watchdog failed 3 times in 600 s, the last time with ValueError: reason 96"

    drive(test, limit=3)


def test_failures_long_ago_do_not_count():
    async def test(supervisor: Supervisor) -> None:
        runs = asyncio.Event()
        supervisor.keep("work", failing(6, runs), vital=True)
        await runs.wait()
        assert supervisor.report()["work"] == {
            "state": "running",
            "failures": 6,
            "reason": "ValueError: reason 0",
        }

    drive(test, limit=2, window=0.0)


def test_a_kept_task_may_end():
    async def test(supervisor: Supervisor) -> None:
        async def work() -> None:
            pass

        supervisor.keep("work", work, vital=True)
        await asyncio.sleep(0.01)
        assert supervisor.report()["work"]["state"] == "ended"

    drive(test)


def test_a_task_of_its_own_is_shown_but_not_started_again():
    async def test(supervisor: Supervisor) -> None:
        async def fail() -> None:
            raise RuntimeError("once")

        async def answer() -> int:
            return 42

        assert await supervisor.spawn("answer", answer()) == 42
        task = supervisor.spawn("calibration", fail())
        with pytest.raises(RuntimeError, match="once"):
            await task
        await asyncio.sleep(0)
        assert supervisor.report() == {
            "answer": {"state": "ended", "failures": 0, "reason": ""},
            "calibration": {"state": "given up", "failures": 1, "reason": "RuntimeError: once"},
        }
        assert supervisor.problems() == ["calibration: given up, 1 failure, the last: RuntimeError: once"]

    drive(test)


def test_several_tasks_of_one_name():
    async def test(supervisor: Supervisor) -> None:
        go = asyncio.Event()

        async def watch(fails: bool) -> None:
            await go.wait()
            if fails:
                raise OSError("gone")

        tasks = [supervisor.spawn("client watch", watch(fails)) for fails in (True, False, True)]
        assert supervisor.report()["client watch"]["state"] == "running"
        go.set()
        await asyncio.wait(tasks)
        await asyncio.sleep(0)
        assert supervisor.report()["client watch"]["failures"] == 2
        assert supervisor.report()["client watch"]["state"] == "given up"

    drive(test)


def test_failing_callbacks_are_shown_and_end_the_daemon(caplog):
    async def test(supervisor: Supervisor) -> None:
        loop = asyncio.get_running_loop()

        def fail() -> None:
            raise KeyError("events")

        loop.call_soon(fail)
        await asyncio.sleep(0.01)
        assert supervisor.problems() == [
            f"{CALLBACKS}: running, 1 failure, the last: KeyError: 'events'",
        ]
        for _ in range(2):
            loop.call_soon(fail)
        assert "event loop failed 3 times in 600 s" in str(await supervisor.fatal())

    drive(test, limit=3)
    assert [r.getMessage() for r in caplog.records] == ["event loop failed: KeyError: 'events'"] * 3


def test_closing_waits_for_what_a_task_still_has_to_do():
    closed = []

    async def test(supervisor: Supervisor) -> None:
        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.01)
                closed.append(True)

        supervisor.keep("work", work)
        await asyncio.sleep(0)
        await supervisor.close()
        assert closed == [True]

    drive(test)


# Tasks that their own function awaits, also where it fails: not in the background.
AWAITED = {
    ("edgettsd/client/_daemon.py", "finished"),
    ("edgettsd/daemon.py", "_unless"),
    ("edgettsd/gateways/watch.py", "_follow"),
    # The test engine: a failure ends the utterance.
    ("edgettsd/engine/fake.py", "_next"),
}


def test_nobody_else_makes_tasks():
    makers = {"create_task", "ensure_future", "TaskGroup", "run_coroutine_threadsafe"}
    found = set()
    for path in sorted((ROOT / "edgettsd").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if name == "edgettsd/supervisor.py" or name.startswith("edgettsd/ctl/"):
            continue
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                used = {n.attr for n in ast.walk(function) if isinstance(n, ast.Attribute)}
                used |= {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
                if used & makers:
                    found.add((name, function.name))
    assert found == AWAITED
