"""edgettsctl speak: text from the command line, a file or standard input; to the sound device or a file."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import stat
import sys
from pathlib import Path
from typing import IO, Any

from edgettsd.bus import OPTION_TYPES
from edgettsd.client import Daemon, variant_options
from edgettsd.ctl._client import connect
from edgettsd.ctl._exit import OF_REASON, CtlError, Exit
from edgettsd.ctl._progress import Progress
from edgettsd.engine._api import Priority, Reason
from edgettsd.engine.wav import wav_header

RAW_SUFFIXES = (".raw", ".pcm", ".s16le", ".s16")
BYTES_A_SAMPLE = 2


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Declare the command."""
    text = "speak a text"
    command = commands.add_parser(
        "speak",
        parents=[common],
        help=text,
        description="Speak a text on the sound device, or write the speech to a file.",
    )
    command.add_argument(
        "text",
        nargs="*",
        metavar="TEXT",
        help="what to speak; several are joined; - reads standard input, as does no text at all",
    )
    command.add_argument("-f", "--file", type=Path, metavar="FILE", help="read the text from a file")
    command.add_argument("-w", "--wait", action="store_true", help="wait for the end; Ctrl-C aborts")
    command.add_argument(
        "-o", "--output", metavar="FILE", help="write the speech to a file; - is standard output"
    )
    command.add_argument(
        "--format",
        choices=("wav", "s16le"),
        help=f"format for -o (default wav; s16le for {', '.join(RAW_SUFFIXES)})",
    )
    command.add_argument("-v", "--voice", metavar="VOICE", help="voice, see edgettsctl voices")
    command.add_argument("-l", "--language", metavar="LANGUAGE", help="language of the text, or auto")
    command.add_argument("-i", "--instruct", metavar="TEXT", help="how to speak, in words")
    command.add_argument(
        "--priority",
        choices=[p.name.lower() for p in Priority],
        metavar="PRIORITY",
        help="important, message (default), text, notification or progress",
    )
    command.add_argument(
        "--interrupt",
        action="store_true",
        default=None,
        help="end what is spoken or waits at this priority or below",
    )
    command.add_argument("--rate", type=float, metavar="X", help="0.5 to 2; how fast, where the model can")
    command.add_argument("--volume", type=float, metavar="X", help="0 to 4; 1 is unchanged")
    command.add_argument("--seed", type=_integer(64), metavar="N", help="the same seed gives the same speech")
    command.add_argument("--temperature", type=float, metavar="X", help="0 to 2")
    command.add_argument("--top-k", type=_integer(32), metavar="N", help="at least 1")
    command.add_argument("--top-p", type=float, metavar="X", help="above 0, up to 1")
    command.add_argument("--repetition-penalty", type=float, metavar="X", help="0.5 to 2")
    command.add_argument("--max-seconds", type=float, metavar="S", help="longest speech, in seconds")
    command.set_defaults(run=run)


def _integer(bits: int) -> Any:
    """An argparse type for integers from 0 that fit `bits` bits."""

    def parse(text: str) -> int:
        value = int(text)
        if not 0 <= value < 2**bits:
            raise argparse.ArgumentTypeError(f"{text} is not from 0 to {2**bits - 1}")
        return value

    parse.__name__ = "integer"
    return parse


async def run(options: argparse.Namespace) -> int:
    """Speak, and with -w or -o wait; returns the exit status of the reason."""
    text = _text(options)
    waits = options.wait or options.output is not None
    values = {key: getattr(options, key, None) for key in OPTION_TYPES}
    # Speech that this command waits for ends with the command, even when the command is killed.
    values["client_bound"] = True if waits else None
    speak_options = variant_options(OPTION_TYPES, values)
    if options.output == "-" and sys.stdout.isatty():
        raise CtlError("-o - would write sound to the terminal; redirect standard output")
    async with connect(options.session, options.bus_address) as daemon:
        if not waits:
            await daemon.call("Speak", "sa{sv}", text, speak_options)
            return Exit.OK
        await daemon.listen()
        if options.output is None:
            utterance = await daemon.call("Speak", "sa{sv}", text, speak_options)
            reason, stats = await _wait(daemon, utterance)
        else:
            reason, stats = await _write(daemon, text, speak_options, options)
    if reason is not Reason.COMPLETED:
        detail = f": {stats['detail']}" if "detail" in stats else ""
        # Not with -o: there the device is the reader, which is this command.
        hint = "; see edgettsctl doctor" if reason is Reason.DEVICE and options.output is None else ""
        print(f"edgettsctl: {reason.value}{detail}{hint}", file=sys.stderr)
    return OF_REASON[reason]


def _text(options: argparse.Namespace) -> str:
    """The text, from wherever it comes. Raises CtlError."""
    if options.file is not None and options.text:
        raise CtlError("give TEXT or -f FILE, not both")
    try:
        if options.file is not None:
            data = options.file.read_bytes()
        elif options.text and options.text != ["-"]:
            return _valid(" ".join(options.text))
        else:
            data = sys.stdin.buffer.read()
    except OSError as error:
        raise CtlError(f"{options.file or 'standard input'}: {error.strerror}") from error
    try:
        return _valid(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise CtlError(f"the text is not UTF-8: byte {error.start} is {data[error.start]:#04x}") from None


def _valid(text: str) -> str:
    """The text, if the bus can carry it. Raises CtlError."""
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise CtlError("the text holds a NUL character or is not UTF-8")
    return text


async def _wait(daemon: Daemon, utterance: int) -> tuple[Reason, dict[str, Any]]:
    """Wait for the end with progress; SIGINT and SIGTERM abort."""
    progress = Progress(sys.stderr)
    finished = asyncio.create_task(daemon.finished(utterance))
    loop = asyncio.get_running_loop()
    began: float | None = None
    with _abort_on_signals(daemon, utterance):
        while not finished.done():
            if daemon.started(utterance):
                began = began or loop.time()
                progress.show(f"speaking {loop.time() - began:.1f} s")
            else:
                progress.show("waiting")
            await asyncio.wait({finished}, timeout=0.1)
    progress.clear()
    return await finished


@contextlib.contextmanager
def _abort_on_signals(daemon: Daemon, utterance: int) -> Any:
    """The first SIGINT or SIGTERM aborts the utterance, whose end is waited for; the second one kills."""
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[Any]] = set()

    def abort() -> None:
        restore()
        tasks.add(loop.create_task(daemon.call("Abort", "t", utterance)))

    def restore() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, abort)
    try:
        yield
    finally:
        restore()
        for task in tasks:
            task.add_done_callback(lambda done: done.cancelled() or done.exception())


async def _write(
    daemon: Daemon, text: str, speak_options: dict[str, Any], options: argparse.Namespace
) -> tuple[Reason, dict[str, Any]]:
    """Synthesise to the file of -o; a WAV file gets its length at the end."""
    wav = _is_wav(options)
    rate = (await daemon.properties())["SampleRate"]
    reader, writer = os.pipe()
    try:
        arguments = (text, 0, speak_options)
        try:
            utterance = await daemon.call("SynthesizeToFd", "sha{sv}", *arguments, fds=[writer])
        finally:
            os.close(writer)
        # The file is opened after the call, because a refused call must leave an existing file alone.
        with _open(options.output) as file, _abort_on_signals(daemon, utterance):
            written = await _copy(reader, file, rate, wav)
            result = await daemon.finished(utterance)
            # The header of standard output is not rewritten, because that file may hold other things before
            # the sound.
            if wav and options.output != "-" and stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                with contextlib.suppress(OSError):
                    file.seek(0)
                    file.write(wav_header(rate, written))
        return result
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise CtlError(f"{options.output}: {error.strerror}") from error
    finally:
        os.close(reader)


async def _copy(reader: int, file: IO[bytes], rate: int, wav: bool) -> int:
    """Copy the pipe to the file behind a header for an unknown length; returns the bytes of audio."""
    progress = Progress(sys.stderr)
    loop = asyncio.get_running_loop()
    written = 0

    def write(data: bytes) -> None:
        file.write(data)
        file.flush()

    if wav:
        await loop.run_in_executor(None, write, wav_header(rate))
    while data := await loop.run_in_executor(None, os.read, reader, 1 << 16):
        await loop.run_in_executor(None, write, data)
        written += len(data)
        progress.show(f"{written / BYTES_A_SAMPLE / rate:.1f} s written")
    progress.clear()
    return written


def _is_wav(options: argparse.Namespace) -> bool:
    if options.format is not None:
        return bool(options.format == "wav")
    return Path(options.output).suffix.lower() not in RAW_SUFFIXES


def _open(output: str) -> IO[bytes]:
    return os.fdopen(os.dup(sys.stdout.fileno()), "wb") if output == "-" else open(output, "wb")
