"""The interface org.edgettsd.Speech1: calls go to the engine, its events become signals. Nothing else.

The calls are taken as messages, not through dbus-fast's service classes: those hide the sender, whose
utterances are his own, and the descriptors, which must be closed exactly once on every path.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dbus_fast import Message, MessageFlag, MessageType, Variant

from edgettsd.bus._connection import DBUS, Connection
from edgettsd.bus._contract import (
    INTERFACE,
    INTROSPECTABLE,
    OBJECT_PATH,
    PROPERTIES,
    Contract,
    Method,
    parent_introspection,
)
from edgettsd.bus._departures import Departures
from edgettsd.bus._options import Limits, check_text, parse_options
from edgettsd.bus._values import variants
from edgettsd.descriptors import close_later
from edgettsd.engine._api import Engine, Reason, Request, SpeakOptions
from edgettsd.engine.callers import NOBODY, Caller
from edgettsd.engine.events import Unsubscribe
from edgettsd.errors import InvalidOptionError, SpeechError
from edgettsd.supervisor import Supervisor

log = logging.getLogger(__name__)

_STANDARD_METHODS = {
    (INTROSPECTABLE, "Introspect"): Method("", "s"),
    (PROPERTIES, "Get"): Method("ss", "v"),
    (PROPERTIES, "GetAll"): Method("s", "a{sv}"),
    (PROPERTIES, "Set"): Method("ssv", ""),
}


class _RefusedError(Exception):
    """A call refused with one of the bus's own error names."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = f"{DBUS}.Error.{name}"


@dataclass(slots=True)
class _Call:
    """One method call: who, with what. Descriptors left in `fds` are closed after the call."""

    sender: Caller
    body: list[Any]
    fds: list[int]

    def take_fd(self, index: int) -> int:
        """Take the descriptor that an argument of type h stands for; the caller owns it then."""
        if not 0 <= index < len(self.fds) or self.fds[index] < 0:
            raise _RefusedError("InvalidArgs", f"no file descriptor with index {index} came with the call")
        fd, self.fds[index] = self.fds[index], -1
        return fd


class SpeechService:
    """Serves one engine on one connection; `start` before the name is acquired, `close` after the engine.

    `default_voice` is the voice of callers that name none; empty: the engine's first. `supervisor` owns the
    service's tasks, and its failures are told in Stats and in the property Problems.
    """

    def __init__(
        self,
        engine: Engine,
        connection: Connection,
        limits: Limits,
        version: str,
        default_voice: str,
        supervisor: Supervisor,
    ) -> None:
        self._engine = engine
        self._connection = connection
        self._limits = limits
        self._version = version
        self._default_voice = default_voice
        self._supervisor = supervisor
        self._contract = Contract.load()
        self._methods: dict[str, Callable[[_Call], list[Any]]] = {
            "Speak": self._speak,
            "SynthesizeToFd": self._synthesize_to_fd,
            "Abort": lambda call: [self._engine.abort(call.body[0], call.sender)],
            "AbortAll": lambda call: [self._engine.abort_all()],
            "Pause": self._pause,
            "Resume": self._resume,
            "Hold": self._hold,
            "ResumeAll": self._resume_all,
            "ListVoices": lambda call: [self._voices()],
            "Stats": lambda call: [self._stats()],
        }
        assert self._methods.keys() == self._contract.methods.keys()
        self._published: dict[str, Variant] = {}
        self._publish_soon: asyncio.Handle | None = None
        # Events of the engine wait here while a call runs, because the caller must learn an id before events
        # name it.
        self._held: list[Callable[[], None]] | None = None
        self._departures = Departures(connection, supervisor, self._client_gone)
        self._unsubscribe: Unsubscribe = lambda: None

    def start(self) -> None:
        """Take calls and the engine's events from now on."""
        self._published = self._properties()
        self._unsubscribe = self._engine.subscribe(
            started=self._on_started, finished=self._on_finished, changed=self._on_changed
        )
        self._supervisor.on_changed = self._on_changed
        self._connection.on_message(self._on_message)

    async def close(self) -> None:
        """Hear no more of the engine; send what is left to send and wait until the bus has it."""
        self._unsubscribe()
        if self._publish_soon is not None:
            self._publish_soon.cancel()
        self._publish()
        await self._connection.flush()

    # Incoming messages

    def _on_message(self, message: Message) -> bool:
        fds = list(message.unix_fds)
        # The message loses its descriptors, because code that looks at it later must not use closed ones.
        message.unix_fds = []
        try:
            if message.message_type is MessageType.METHOD_CALL:
                return self._on_call(message, fds)
            if message.message_type is MessageType.SIGNAL:
                self._departures.on_signal(message)
            return False
        finally:
            for fd in fds:
                if fd >= 0:
                    close_later(fd)

    def _on_call(self, message: Message, fds: list[int]) -> bool:
        try:
            handler = self._find(message)
            if handler is None:
                return False
            self._held = []
            outputs, method = handler
            body = outputs(_Call(Caller.bus(message.sender or ""), message.body, fds))
            reply = Message.new_method_return(message, method.outputs, body)
        except SpeechError as error:
            reply = Message.new_error(message, error.dbus_name, str(error))
        except _RefusedError as error:
            reply = Message.new_error(message, error.name, str(error))
        except Exception:
            log.exception("%s failed", message.member)
            reply = Message.new_error(message, f"{DBUS}.Error.Failed", "internal error; see the daemon's log")
        if not message.flags & MessageFlag.NO_REPLY_EXPECTED:
            self._connection.send(reply)
        held, self._held = self._held or [], None
        for event in held:
            event()
        return True

    def _find(self, message: Message) -> tuple[Callable[[_Call], list[Any]], Method] | None:
        """The handler of a call and its signatures; None leaves it to dbus-fast (Peer, other objects)."""
        interface, member, path = message.interface, message.member or "", message.path or ""
        if member == "Introspect" and interface in (INTROSPECTABLE, None):
            xml = self._contract.introspection if path == OBJECT_PATH else parent_introspection(path)
            if xml is None:
                return None
            return self._checked(message, lambda call: [xml], _STANDARD_METHODS[INTROSPECTABLE, member])
        if path != OBJECT_PATH:
            return None
        if interface == PROPERTIES and (PROPERTIES, member) in _STANDARD_METHODS:
            handlers = {"Get": self._get, "GetAll": self._get_all, "Set": self._set}
            return self._checked(message, handlers[member], _STANDARD_METHODS[PROPERTIES, member])
        if interface in (INTERFACE, None) and member in self._methods:
            return self._checked(message, self._methods[member], self._contract.methods[member])
        if interface == INTERFACE:
            allowed = ", ".join(self._contract.methods)
            raise _RefusedError("UnknownMethod", f"no method {member}; {INTERFACE} has: {allowed}")
        return None

    def _checked(
        self, message: Message, handler: Callable[[_Call], list[Any]], method: Method
    ) -> tuple[Callable[[_Call], list[Any]], Method]:
        if message.signature != method.inputs:
            raise _RefusedError(
                "InvalidArgs", f"{message.member} takes ({method.inputs}), not ({message.signature})"
            )
        return handler, method

    # Methods

    def _speak(self, call: _Call) -> list[Any]:
        text, raw = call.body
        options, _ = self._options(text, raw, with_format=False)
        return [self._submit(Request(text, options, call.sender))]

    def _synthesize_to_fd(self, call: _Call) -> list[Any]:
        text, index, raw = call.body
        options, audio_format = self._options(text, raw, with_format=True)
        fd = call.take_fd(index)
        try:
            _prepare_fd(fd)
            return [self._submit(Request(text, options, call.sender, fd, audio_format))]
        except BaseException:
            # The engine owns the descriptor only once it has accepted the utterance.
            close_later(fd)
            raise

    def _options(self, text: str, raw: Mapping[str, Variant], with_format: bool) -> tuple[SpeakOptions, str]:
        check_text(text, self._limits)
        engine = self._engine
        return parse_options(raw, self._limits, engine.voices, engine.languages, with_format=with_format)

    def _submit(self, request: Request) -> int:
        utterance = self._engine.speak(request)
        if request.options.client_bound:
            self._departures.hold(request.client, utterance)
        return utterance

    def _voices(self) -> list[dict[str, Variant]]:
        voices = self._engine.voices
        default = self._default_voice or (voices[0].id if voices else "")
        return [
            variants(
                {
                    "id": voice.id,
                    "languages": list(voice.languages),
                    "description": voice.description,
                    "default": voice.id == default,
                },
                self._contract.keys["ListVoices"],
            )
            for voice in voices
        ]

    def _stats(self) -> str:
        return json.dumps({**self._engine.stats(), "tasks": self._supervisor.report()})

    def _pause(self, call: _Call) -> list[Any]:
        self._engine.pause(call.sender)
        self._departures.hold(call.sender, _pause_of(call.sender))
        return []

    def _resume(self, call: _Call) -> list[Any]:
        self._engine.resume(call.sender)
        self._departures.release(_pause_of(call.sender))
        return []

    def _hold(self, call: _Call) -> list[Any]:
        self._engine.pause(NOBODY)
        return []

    def _resume_all(self, call: _Call) -> list[Any]:
        owners = self._engine.paused_by
        self._engine.resume_all()
        for owner in owners:
            self._departures.release(_pause_of(owner))
        return [len(owners)]

    def _client_gone(self, client: Caller) -> None:
        self._engine.client_gone(client)
        self._departures.release(_pause_of(client))

    # Properties

    def _properties(self) -> dict[str, Variant]:
        engine = self._engine
        values: dict[str, Any] = {
            "State": engine.state.value,
            "Active": engine.active,
            "QueueLength": engine.queue_length,
            "Model": engine.model_name,
            "SampleRate": engine.sample_rate,
            "Problems": self._supervisor.problems(),
            "Version": self._version,
        }
        types = self._contract.properties
        return {name: Variant(signature, values[name]) for name, signature in types.items()}

    def _get(self, call: _Call) -> list[Any]:
        interface, name = call.body
        self._check_interface(interface)
        properties = self._properties()
        if name not in properties:
            raise _RefusedError("UnknownProperty", f"no property {name}; there are: {', '.join(properties)}")
        return [properties[name]]

    def _get_all(self, call: _Call) -> list[Any]:
        self._check_interface(call.body[0])
        return [self._properties()]

    def _set(self, call: _Call) -> list[Any]:
        self._check_interface(call.body[0])
        raise _RefusedError("PropertyReadOnly", f"{call.body[1]} cannot be set")

    @staticmethod
    def _check_interface(interface: str) -> None:
        if interface not in (INTERFACE, ""):
            raise _RefusedError("UnknownInterface", f"{interface} has no properties; {INTERFACE} has")

    # Events of the engine

    def _on_started(self, utterance: int, info: Mapping[str, Any]) -> None:
        values = variants(info, self._contract.keys["Started"])
        self._soon_or_now(lambda: self._emit("Started", [utterance, values]))

    def _on_finished(self, utterance: int, reason: Reason, stats: Mapping[str, Any]) -> None:
        values = variants(stats, self._contract.keys["Finished"])

        def event() -> None:
            self._departures.release(utterance)
            self._emit("Finished", [utterance, reason.value, values])

        self._soon_or_now(event)

    def _on_changed(self) -> None:
        if self._publish_soon is None:
            self._publish_soon = asyncio.get_running_loop().call_soon(self._publish)

    def _soon_or_now(self, event: Callable[[], None]) -> None:
        if self._held is not None:
            self._held.append(event)
        else:
            event()

    def _publish(self) -> None:
        """PropertiesChanged with what differs from the last one."""
        self._publish_soon = None
        current = self._properties()
        changed = {name: value for name, value in current.items() if self._published.get(name) != value}
        self._published = current
        if changed:
            self._send_signal(PROPERTIES, "PropertiesChanged", "sa{sv}as", [INTERFACE, changed, []])

    def _emit(self, signal: str, body: list[Any]) -> None:
        self._send_signal(INTERFACE, signal, self._contract.signals[signal], body)

    def _send_signal(self, interface: str, member: str, signature: str, body: list[Any]) -> None:
        self._connection.send(Message.new_signal(OBJECT_PATH, interface, member, signature, body))


def _pause_of(client: Caller) -> tuple[str, Caller]:
    """What a caller holds who has paused; utterances are held by their number."""
    return "pause", client


def _prepare_fd(fd: int) -> None:
    """Check that the descriptor is of a kind that speech can be delivered to. Raises InvalidOptionError.

    Its open file description is the client's too and stays as it is.
    """
    # Imported late because the bus's names are wanted where nothing is compiled, too.
    from cython_kernels.delivery import descriptor_kind

    try:
        descriptor_kind(fd)
    except ValueError as error:
        allowed = "a pipe, a connected stream socket or a regular file, open for writing"
        raise InvalidOptionError(f"fd is {error}; allowed: {allowed}") from None
    os.set_inheritable(fd, False)
