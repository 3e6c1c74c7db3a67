"""Where the threads of the real engine are: read from /proc while the daemon runs."""

from __future__ import annotations

import asyncio
import json
import os
from collections import defaultdict
from pathlib import Path

import model_files
import pytest

from edgettsd.config import Config, parse_cpus
from edgettsd.engine._api import Reason, Request
from edgettsd.engine.engine import Engine

# Speech of two frames: two threads of a stage on one CPU wait for each other most of the time.
CONFIG = """
[model]
path = "{model}"
[audio]
sink = "fake"
[engine]
max_seconds = 0.16
"""


def placed(pid: int) -> dict[str, list[tuple[int, ...]]]:
    """The allowed CPUs of each thread of a process, by the thread's name."""
    found = defaultdict(list)
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = (task / "status").read_text()
        cpus = status.split("Cpus_allowed_list:")[1].split()[0]
        found[(task / "comm").read_text().strip()].append(parse_cpus(cpus))
    return found


def speak(system) -> None:
    done = system.ctl("speak", "-w", "Hello there.")
    # The random model does not end by itself.
    assert done.returncode in (0, 5, 6), done.stderr


@pytest.fixture(scope="module")
def cpus():
    """The first and the last CPU that this process may use, which are the same on a machine with one."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[-1]


@pytest.mark.parametrize("threads", [1, 2])
def test_every_worker_sits_on_the_set_of_its_stage(start, cpus, threads):
    first, last = cpus
    keys = f'cpus_generator = "{first}"\ncpus_decoder = "{last}"\ncpus_playout = "{last}"\n'
    keys += f"threads_generator = {threads}\nthreads_decoder = {threads}\n"
    system = start(engine="", config=CONFIG.format(model=model_files.bundle()) + keys)
    speak(system)
    found = placed(system.process.pid)
    assert found["tts-generator"] == [(first,)] * len(found["tts-generator"])
    assert found["tts-decoder"] == [(last,)] * len(found["tts-decoder"])
    assert found["tts-playout"] == [(last,)]
    # The workers are there at all, and nobody else's thread took the work.
    assert len(found["tts-generator"]) >= threads
    assert len(found["tts-decoder"]) >= threads
    assert len(found["edgettsd"]) >= 1


def test_what_the_machine_decides_is_what_the_threads_have(start):
    """Without any configuration: the sets that edgettsctl hw shows."""
    system = start(engine="", config=CONFIG.format(model=model_files.bundle()))
    shown = system.ctl("hw", "--json", "--config", str(system.config))
    decisions = json.loads(shown.stdout)["decisions"]
    speak(system)
    found = placed(system.process.pid)
    for stage in ("generator", "decoder", "playout"):
        expected = tuple(decisions[f"cpus_{stage}"]["value"])
        assert set(found[f"tts-{stage}"]) == {expected}, stage
    main = Path(f"/proc/{system.process.pid}/status").read_text()
    assert parse_cpus(main.split("Cpus_allowed_list:")[1].split()[0]) == tuple(
        decisions["cpus_loop"]["value"]
    )


def test_another_machines_profile_does_not_stop_the_daemon(start, tmp_path):
    """Emulating a board whose CPUs are not here: threads stay free, and the log says so."""
    many = 900
    cpus = [{"id": many + i, "core": many + i, "cluster": many} for i in range(4)]
    (tmp_path / "profile.json").write_text(json.dumps({"cpus": cpus}))
    system = start(
        engine="",
        config=CONFIG.format(model=model_files.bundle()) + "threads_generator = 1\nthreads_decoder = 1\n",
        env={"EDGETTSD_HW_PROFILE": str(tmp_path / "profile.json")},
    )
    speak(system)
    assert "cpus_generator = (900,): not pinned" in system.log
    everywhere = tuple(sorted(os.sched_getaffinity(0)))
    assert set(placed(system.process.pid)["tts-generator"]) == {everywhere}


@pytest.mark.parametrize(
    "config, env, message",
    [
        ('cpus_decoder = "901"', "", "CPUs [901]: Invalid argument; allowed here are"),
        ("", '{"ram_mb": 0}', "ram_mb = 0: must be an integer from 1"),
    ],
)
def test_what_cannot_be_is_refused_by_name(bus, folder, tmp_path, config, env, message):
    from integration.harness import System

    extra = {}
    if env:
        (tmp_path / "profile.json").write_text(env)
        extra["EDGETTSD_HW_PROFILE"] = str(tmp_path / "profile.json")
    text = CONFIG.format(model=model_files.bundle()) + config
    system = System(bus, folder, engine="", config=text, env=extra, wait=False)
    assert system.process.wait(60) in (2, 3)
    system.stop()
    assert message in system.log


def test_every_worker_moves_with_its_stage(cpus):
    """The kernels' own workers too, between two utterances and in the middle of one."""
    first, last = cpus
    tables = {
        "model": {"path": str(model_files.bundle())},
        "audio": {"sink": "fake"},
        "engine": {"threads_generator": 2, "threads_decoder": 2, "max_seconds": 0.5},
    }
    config = Config().updated(tables, "test")
    ended: list[Reason] = []

    async def speak(engine: Engine, moves: bool) -> None:
        count = len(ended)
        engine.speak(Request("Hello there."))
        await asyncio.sleep(0.02)
        if moves:
            engine.move((last,), (first,))
        while len(ended) == count:
            await asyncio.sleep(0.01)

    async def main() -> None:
        engine = Engine(config)
        engine.subscribe(finished=lambda utterance, reason, stats: ended.append(reason))
        await engine.start()
        try:
            await speak(engine, False)
            before = placed(os.getpid())
            engine.move((first,), (last,))
            await speak(engine, False)
            found = placed(os.getpid())
            assert found["tts-generator"] == [(first,)] * len(before["tts-generator"])
            assert found["tts-decoder"] == [(last,)] * len(before["tts-decoder"])
            assert len(found["tts-generator"]) >= 2
            assert len(found["tts-decoder"]) >= 2
            await speak(engine, True)
            found = placed(os.getpid())
            assert set(found["tts-generator"]) == {(last,)}
            assert set(found["tts-decoder"]) == {(first,)}
            assert set(found["tts-playout"]) == set(before["tts-playout"])
        finally:
            await engine.stop()

    asyncio.run(main())
    # The random model does not end by itself.
    assert len(ended) == 3
    assert set(ended) <= {Reason.COMPLETED, Reason.LIMIT, Reason.RUNAWAY}
