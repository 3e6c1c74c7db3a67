"""What the bus and the command line know of an engine.

The interface exists so that the daemon, its bus and its tools can be tested against a scripted
engine; `edgettsd.engine.Engine` is the real one, `edgettsd.engine.fake.FakeEngine` the scripted one.
All methods are called on the asyncio loop and never block it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from edgettsd.engine.callers import NOBODY, Caller
from edgettsd.engine.events import Unsubscribe
from edgettsd.engine.text_source import TextSource
from edgettsd.hw.placement import Cpus
from edgettsd.hw.rearrange import Stages


class Priority(enum.IntEnum):
    """Message priorities with the meaning speech-dispatcher gives them; a lower value goes first."""

    IMPORTANT = 0
    MESSAGE = 1
    TEXT = 2
    NOTIFICATION = 3
    PROGRESS = 4


class Reason(enum.StrEnum):
    """Why an utterance ended; exactly one per utterance."""

    COMPLETED = "completed"
    ABORTED = "aborted"
    REPLACED = "replaced"
    RUNAWAY = "runaway"
    LIMIT = "limit"
    DEVICE = "device"
    ERROR = "error"


class State(enum.StrEnum):
    """What the daemon is doing; the value of the D-Bus property State."""

    STARTING = "starting"
    IDLE = "idle"
    SPEAKING = "speaking"
    PAUSED = "paused"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class SpeakOptions:
    """Validated options of one utterance; None means the model's or the configuration's default."""

    voice: str | None = None
    language: str | None = None
    instruct: str | None = None
    priority: Priority = Priority.MESSAGE
    interrupt: bool = False
    client_bound: bool = False
    volume: float = 1.0
    seed: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    max_seconds: float | None = None
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One utterance as a client asked for it.

    `client` owns it: it alone may abort it, and its limit counts it. With
    `fd` the audio goes to that descriptor (owned by the engine from then on, closed at the end) in `format`
    "s16le" or "wav" instead of the sound device. With `source` the text is what is written there, while it
    is spoken already, and `text` is not looked at.
    """

    text: str
    options: SpeakOptions = field(default_factory=SpeakOptions)
    client: Caller = NOBODY
    fd: int | None = None
    format: str = "s16le"
    source: TextSource | None = None


@dataclass(frozen=True, slots=True)
class Voice:
    """One voice of the loaded model."""

    id: str
    languages: tuple[str, ...] = ()
    description: str = ""


OnStarted = Callable[[int, Mapping[str, Any]], None]
OnFinished = Callable[[int, Reason, Mapping[str, Any]], None]
OnChanged = Callable[[], None]


class Engine(Protocol):
    """An engine: a queue of utterances, spoken one at a time."""

    def subscribe(
        self,
        *,
        started: OnStarted | None = None,
        finished: OnFinished | None = None,
        changed: OnChanged | None = None,
    ) -> Unsubscribe:
        """Call these on the loop from now on; returns what ends that.

        `started(id, info)`, `finished(id, reason, stats)` (exactly once per accepted id) and `changed()`
        (state, active or queue_length may have changed). A listener that raises is logged.
        """
        ...

    @property
    def state(self) -> State: ...
    @property
    def active(self) -> int:
        """Id of the utterance being spoken, 0 when there is none."""
        ...

    @property
    def queue_length(self) -> int: ...
    @property
    def model_name(self) -> str: ...
    @property
    def sample_rate(self) -> int: ...
    @property
    def voices(self) -> tuple[Voice, ...]: ...
    @property
    def languages(self) -> tuple[str, ...]: ...

    async def load(self) -> None:
        """Read what the model is: name, rate, voices, languages. Raises ModelInvalidError.

        From then on utterances are accepted; they wait for `start`.
        """
        ...

    async def start(self) -> None:
        """Load the model's weights, and first what `load` reads if that was not called; start the threads.

        Raises ModelInvalidError, or ConfigError for a sound output that cannot be had; what waits has then
        ended with reason error.
        """
        ...

    async def stop(self) -> None:
        """End every utterance (aborted) and the threads; idempotent."""
        ...

    def speak(self, request: Request) -> int:
        """Queue an utterance and return its id (from 1, ascending).

        Raises InvalidTextError, InvalidOptionError, UnknownVoiceError, QueueFullError, NotReadyError.
        """
        ...

    def abort(self, utterance: int, client: Caller) -> bool:
        """Abort an utterance of `client`; False when it has ended already, NotFoundError when it is not the
        client's or never existed."""
        ...

    def abort_all(self) -> int:
        """Abort everything queued or spoken; returns how many."""
        ...

    def client_gone(self, client: Caller) -> None:
        """Abort the client_bound utterances of a client that has left, and end its pause."""
        ...

    @property
    def paused_by(self) -> tuple[Caller, ...]:
        """Whose pauses are in force, the oldest first; "" for the one that outlives its caller."""
        ...

    def pause(self, client: Caller = NOBODY) -> None:
        """Hold the speech for `client`; for "" until anybody resumes who has no pause of his own."""
        ...

    def resume(self, client: Caller = NOBODY) -> None:
        """End the pause of `client`, or that of "" if it has none."""
        ...

    def resume_all(self) -> None:
        """End everybody's pause."""
        ...

    def set_speed(self, speed: float) -> None:
        """The CPUs run at this share (above 0 to 1) of their full clock: start later rather than run dry."""
        ...

    @property
    def stages(self) -> Stages | None:
        """CPUs and threads of the computing stages as planned; None where there are none to move."""
        ...

    def move(self, generator: Cpus, decoder: Cpus) -> tuple[Cpus, Cpus]:
        """Let generator and decoder, with all their threads, run on these CPUs from now on.

        Both or none; returns the CPUs where they run now.
        """
        ...

    def heartbeat(self) -> bool:
        """True while every engine thread makes progress; the watchdog is fed only then."""
        ...

    def stats(self) -> Mapping[str, Any]:
        """Counters and recent figures for `edgettsctl status --json`."""
        ...
