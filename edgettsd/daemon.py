"""The daemon's life: configuration, engine, bus, ready, stop. Nothing else."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from edgettsd import __version__, messages, watchdog
from edgettsd import config as config_file
from edgettsd import log as logs
from edgettsd.bus import BUS_NAME, BusError, BusLostError, Connection, Limits, NameTakenError, SpeechService
from edgettsd.config import Config, ConfigError
from edgettsd.engine import scripted
from edgettsd.engine._api import Engine
from edgettsd.engine.loader import still_loading
from edgettsd.errors import SpeechError
from edgettsd.hw import Plan, Profile, ProfileError, adapt, calibration, load_profile, own_isa, thermal
from edgettsd.hw.cache import cache_folder
from edgettsd.hw.rearrange import Speeds, arrangement, rearrange
from edgettsd.hw.threads import name_thread, pin_thread
from edgettsd.lanes import Lane
from edgettsd.models import default
from edgettsd.notify import Notifier
from edgettsd.supervisor import Supervisor, SupervisorError
from edgettsd.tuning.background import EXIT_LOADED, calibrate_when_idle

log = logging.getLogger("edgettsd")

# Exit status; the unit does not restart after those that a restart cannot help.
EXIT_OK = 0
EXIT_FAILED = 1
EXIT_CONFIG = 2
EXIT_MODEL = 3
EXIT_NAME_TAKEN = 4
EXIT_BUS = 5

# systemd waits longer than this before it kills.
STOP_SECONDS = 5.0
SWITCH_SECONDS = 0.001


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the daemon until it is told to stop; returns its exit status."""
    options = _parser().parse_args(arguments)
    logs.set_up("info")
    try:
        config = _configuration(options)
    except ConfigError as error:
        log.error("%s", error)
        return EXIT_CONFIG
    logs.set_up(config.log.level)
    # Because a text that is being prepared holds the interpreter, calls and events wait so long at each step.
    sys.setswitchinterval(SWITCH_SECONDS)
    # ps shall not show "python3"; the other threads name themselves.
    name_thread("edgettsd")
    notifier = Notifier()
    try:
        machine = _machine(config, options.engine[0])
    except ProfileError as error:
        log.error("%s", error)
        return EXIT_CONFIG
    if options.calibrate:
        return _calibrate(config, machine[0])
    command = None
    if options.engine[0] == "real" and config.engine.calibrate:
        given = list(sys.argv[1:] if arguments is None else arguments)
        command = [sys.executable, "-m", "edgettsd", *given, "--calibrate"]
    try:
        status = asyncio.run(_serve(config, options.engine, notifier, machine, command))
    finally:
        notifier.close()
    if still_loading():
        # The process ends at once, because a library that reads weights cannot be interrupted and must not
        # find the interpreter half gone.
        logging.shutdown()
        os._exit(status)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="edgettsd",
        description="Text-to-speech daemon. Options override the configuration file.",
        epilog="Exit status: 0 stopped, 1 failed, 2 usage or configuration, 3 model, "
        "4 another edgettsd runs, 5 message bus, 6 others use the CPUs (--calibrate).",
    )
    parser.add_argument("--version", action="version", version=_version())
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"configuration file, read alone (default {config_file.DEFAULT_PATH}, and then the files in "
        f"{config_file.DEFAULT_PATH.name}.d)",
    )
    bus = parser.add_mutually_exclusive_group()
    bus.add_argument("--session", action="store_true", help="use the session bus")
    bus.add_argument("--bus-address", metavar="ADDRESS", help="use the bus at this address")
    parser.add_argument("--model", metavar="DIR", help="model folder (default: the configured one)")
    parser.add_argument("--sink", metavar="SINK", help="where speech is played: alsa, file or fake")
    parser.add_argument("--device", metavar="PCM", help="ALSA device, or the file of --sink file")
    parser.add_argument(
        "--calibrate",
        action="store_true",
        help="measure how the CPUs are best used with this model, keep it for later starts, and exit",
    )
    parser.add_argument("--log-level", metavar="LEVEL", help="debug, info, warning or error")
    parser.add_argument(
        "--engine",
        metavar="ENGINE",
        type=_engine_kind,
        default=("real", 1.0),
        help="real (default); fake[:SPEED]: scripted, without model and sound; "
        "scripted[:KEY=VALUE,...]: the real engine without a model (see edgettsd.engine.scripted)",
    )
    return parser


def _version() -> str:
    """What --version tells: the version, and the voice inside."""
    voice = default.built_in_name()
    return f"edgettsd {__version__}" + (f" (built-in voice {voice})" if voice else "")


def _engine_kind(text: str) -> tuple[str, float | str]:
    """real, fake, fake:SPEED, scripted or scripted:KEY=VALUE,..."""
    kind, _, speed = text.partition(":")
    if kind == "scripted":
        try:
            scripted.parse(speed)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
        return kind, speed
    if kind not in ("real", "fake") or (speed and kind == "real"):
        raise argparse.ArgumentTypeError(f"{text!r}: allowed are real, fake, fake:SPEED and scripted:...")
    try:
        factor = float(speed or "1")
    except ValueError:
        factor = 0.0
    if not 0 < factor < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r}: the speed must be a number above 0")
    return kind, factor


def _configuration(options: argparse.Namespace) -> Config:
    """The configuration file with the command line over it, and the model that speaks."""
    given = {
        "bus": {
            "bus": "session" if options.session else None,
            "address": "" if options.session else options.bus_address,
        },
        "model": {"path": options.model},
        "audio": {"sink": options.sink, "device": options.device},
        "log": {"level": options.log_level},
    }
    tables = {
        section: {key: value for key, value in keys.items() if value is not None}
        for section, keys in given.items()
    }
    return default.with_model(config_file.load(options.config).updated(tables, "command line"))


def _machine(config: Config, engine: str) -> tuple[Profile, Plan]:
    """The hardware and what follows from it; raises ProfileError."""
    if engine != "fake":
        log.debug("own products: %s", own_isa())
    profile = load_profile()
    plan = adapt(profile, config)
    log.debug("hardware: %s", profile)
    for decision in plan.decisions:
        log.debug("%s = %s: %s", decision.name, decision.value, decision.reason)
    return profile, plan


def _calibrate(config: Config, profile: Profile) -> int:
    """Measure, keep and print; returns the exit status."""
    # Imported late because calibration needs the compiled kernels; a fake engine does without.
    from edgettsd.tuning import calibrate

    try:
        result = asyncio.run(calibrate.calibrate(profile, config, cache_folder()))
    except calibrate.BusyError as error:
        log.error("not calibrated: %s", error)
        return EXIT_LOADED
    except SpeechError as error:
        log.error("%s: %s", error.name, error)
        return EXIT_MODEL
    except (OSError, RuntimeError) as error:
        log.error("not calibrated: %s", error)
        return EXIT_FAILED
    for line in calibrate.table(result):
        print(line)
    return EXIT_OK


def _make_engine(config: Config, kind: tuple[str, float | str], plan: Plan) -> Engine:
    # Imported late because the fake engine needs no compiled kernels, and a broken build must not hide its
    # reason.
    if kind[0] == "fake":
        from edgettsd.engine.fake import FakeEngine

        return FakeEngine(config, float(kind[1]))
    if kind[0] == "scripted":
        return scripted.make(config, str(kind[1]), plan)
    from edgettsd.engine import Engine as RealEngine

    log.info("model folder: %s", default.origin(config))
    return RealEngine(config, plan=plan)


async def _serve(
    config: Config,
    kind: tuple[str, float | str],
    notifier: Notifier,
    machine: tuple[Profile, Plan],
    tuning_command: Sequence[str] | None,
) -> int:
    """Serve until SIGTERM, SIGINT or the loss of the bus; returns the exit status.

    `tuning_command` is a command that is run once while nothing is spoken.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        connection = await Connection.open(config.bus.bus, config.bus.address)
    except BusError as error:
        return _fail(notifier, EXIT_BUS, str(error))
    try:
        # The name is looked at before the model is read, because a second daemon must not take memory from
        # the first.
        if await connection.owner(BUS_NAME) is not None:
            raise NameTakenError(f"{BUS_NAME} is owned by another process")
        engine = _make_engine(config, kind, machine[1])
        return await _run(config, engine, connection, notifier, stop, machine, tuning_command)
    except NameTakenError as error:
        return _fail(notifier, EXIT_NAME_TAKEN, f"{error}: edgettsd runs already on this bus")
    except BusError as error:
        return _fail(notifier, EXIT_BUS, str(error))
    except TimeoutError:
        return _fail(notifier, EXIT_BUS, "the bus does not answer")
    except SpeechError as error:
        return _fail(notifier, EXIT_MODEL, f"{error.name}: {error}", messages.MODEL_REFUSED)
    except ConfigError as error:
        return _fail(notifier, EXIT_CONFIG, str(error))
    except SupervisorError as error:
        return _fail(notifier, EXIT_FAILED, str(error), messages.TASK_FAILED)
    except Exception as error:
        log.exception("unexpected failure")
        return _fail(notifier, EXIT_FAILED, f"failed: {type(error).__name__}: {error}")
    finally:
        connection.close()
        # A second signal, while the loop closes, must not be written to a pipe that is closed already.
        signal.set_wakeup_fd(-1)


async def _run(
    config: Config,
    engine: Engine,
    connection: Connection,
    notifier: Notifier,
    stop: asyncio.Event,
    machine: tuple[Profile, Plan],
    tuning_command: Sequence[str] | None,
) -> int:
    """Start the engine, serve it, stop it again.

    Raises BusError, SpeechError, ConfigError, SupervisorError.
    """
    supervisor = Supervisor()
    supervisor.watch_loop()
    stopped = supervisor.spawn("stop signal", stop.wait())
    lost = supervisor.spawn("bus connection", connection.lost())
    fatal = supervisor.spawn("supervisor", supervisor.fatal())
    ends: set[asyncio.Task[Any]] = {stopped, lost, fatal}
    profile, plan = machine
    limits = Limits(config.engine.max_text_bytes, config.engine.max_seconds)
    service = SpeechService(engine, connection, limits, __version__, config.engine.voice, supervisor)
    serving = False
    try:
        notifier.send(STATUS="Loading the model")
        if not await _unless(ends, engine.load()):
            return _end(lost, fatal)
        # Callers do not wait for the weights: an activation by the bus takes 25 s at most. They are answered,
        # and what they say is spoken once the model is there.
        service.start()
        serving = True
        await connection.acquire(BUS_NAME)
        if not await _unless(ends, engine.start()):
            return _end(lost, fatal)
        notifier.send(READY="1", STATUS=f"Ready: {engine.model_name} at {engine.sample_rate} Hz")
        _place_loop(plan)
        log.info(
            "ready: version %s, model %s, %d Hz",
            __version__,
            engine.model_name,
            engine.sample_rate,
            extra={"message_id": messages.STARTED},
        )
        supervisor.keep("watchdog", lambda: watchdog.feed(notifier, engine.heartbeat), vital=True)
        if tuning_command is not None and calibration.known(profile, config, cache_folder()) is None:
            lane = Lane("calibration", engine, supervisor)
            supervisor.spawn("calibration", calibrate_when_idle(lane, tuning_command))
        sensors = thermal.Sensors(profile.zones)
        supervisor.keep("thermal watch", lambda: thermal.watch(sensors, _keep_cool(engine, profile)))
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        return _end(lost, fatal)
    finally:
        notifier.send(STOPPING="1", STATUS="Stopping")
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await engine.stop()
        except TimeoutError:
            log.error("the engine did not stop within %g s", STOP_SECONDS)
        if serving and not lost.done():
            await service.close()
        await supervisor.close()


async def _unless(ends: set[asyncio.Task[Any]], work: Coroutine[Any, Any, None]) -> bool:
    """Run `work` to its end, or until one of `ends` is done: False. Raises what `work` raises."""
    task = asyncio.create_task(work)
    await asyncio.wait({task, *ends}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
        return True
    task.cancel()
    await asyncio.wait({task})
    return False


def _end(lost: asyncio.Task[BusLostError], fatal: asyncio.Task[SupervisorError]) -> int:
    """The exit status of a stopped daemon; raises BusLostError or SupervisorError where one is the end."""
    for end in (lost, fatal):
        if end.done():
            raise end.result()
    return EXIT_OK


def _keep_cool(engine: Engine, profile: Profile) -> Callable[[Speeds], None]:
    """What to do when CPUs get slower or faster: move the stages, and start later for what that leaves."""

    def changed(speeds: Speeds) -> None:
        stages = engine.stages
        if stages is None:
            engine.set_speed(speeds.least)
            return
        best = rearrange(profile, stages, speeds)
        there = engine.move(best.generator, best.decoder)
        engine.set_speed(arrangement(profile, stages, speeds, *there).speed)

    return changed


def _place_loop(plan: Plan) -> None:
    """Keep the loop off the computing CPUs, after the engine's threads have taken their own."""
    with contextlib.suppress(ValueError):
        pin_thread(plan.cpus_loop)


def _fail(notifier: Notifier, status: int, reason: str, message_id: str = "") -> int:
    """Say why the daemon ends, to the log and to systemctl status."""
    log.error("%s", reason, extra={"message_id": message_id} if message_id else None)
    notifier.send(STATUS=reason)
    return status


if __name__ == "__main__":
    sys.exit(main())
