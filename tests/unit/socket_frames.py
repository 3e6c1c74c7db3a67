"""Frames from a socket: a second source of frames beside the local generator, and a scripted peer for it.

The peer's items are numbered and of one size: kind, reason, number, codes. The source asks for a segment with
one line of JSON and cancels with another.
"""

from __future__ import annotations

import contextlib
import json
import random
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cython_kernels.fake import FakeDecoder
from cython_kernels.frames import FrameGate
from cython_kernels.pipe import DecoderHandle, Pipe
from edgettsd.engine._api import SpeakOptions, Voice
from edgettsd.engine.parts import ModelInfo
from edgettsd.engine.sources import FrameSource, Order

FRAME, END = 1, 2
REASONS = ("completed", "limit", "runaway", "error")


def item_dtype(groups: int) -> np.dtype[np.void]:
    return np.dtype([("kind", "u1"), ("reason", "u1"), ("seq", "<u2"), ("codes", "<i2", (groups,))])


class SocketFrames:
    """The source: one connection for one sentence after the other, made anew by `connect` when lost."""

    def __init__(
        self,
        pipe: Pipe,
        connect: Callable[[], socket.socket],
        *,
        entries: int,
        stall_seconds: float = 10.0,
        drop_frames: int = 0,
    ) -> None:
        self._gate = FrameGate(pipe, entries=entries)
        self._connect = connect
        self._stall, self._drop = stall_seconds, drop_frames
        self._dtype = item_dtype(pipe.groups)
        self._socket: socket.socket | None = None
        self.threads: set[int] = set()

    def segment(self, order: Order) -> dict[str, Any]:
        """Ask for the segment and hand on what comes."""
        self.threads.add(threading.get_ident())
        gate = self._gate
        try:
            if gate.begin(
                order.generation,
                max_frames=min(order.left, order.sentence.max_frames),
                drop_frames=self._drop,
                repeat_frames=order.repeat_frames,
                repeat_period=order.repeat_period,
            ):
                peer = self._ask(order)
                reason = self._read(peer)
                if reason is None:
                    # What is still under way belongs to nobody.
                    self._send(peer, {"cancel": order.index})
                    self.close()
                return gate.finish(reason or "aborted")
            return gate.finish()
        except BaseException:
            self.close()
            raise

    def _ask(self, order: Order) -> socket.socket:
        if self._socket is None:
            self._socket = self._connect()
        self._socket.setblocking(False)
        self._send(self._socket, {"text": order.sentence.text, "seed": order.seed, "index": order.index})
        return self._socket

    @staticmethod
    def _send(peer: socket.socket, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            peer.send(json.dumps(message).encode() + b"\n")

    def _read(self, peer: socket.socket) -> str | None:
        """Push frames until the peer or the gate ends the segment; the peer's reason, None: the gate's."""
        held, expected = b"", 0
        while self._gate.wait(peer.fileno(), self._stall):
            data = peer.recv(1 << 16)
            if not data:
                raise ConnectionError(f"the peer has gone after {expected} frames")
            held += data
            whole = len(held) // self._dtype.itemsize
            items = np.frombuffer(held, self._dtype, whole)
            held = held[whole * self._dtype.itemsize :]
            wanted = (np.arange(whole) + expected).astype(np.uint16)
            if not np.array_equal(items["seq"], wanted):
                raise ValueError(f"frames are missing after number {expected}")
            ends = np.flatnonzero(items["kind"] == END)
            frames = items[: ends[0]] if len(ends) else items
            expected += len(frames)
            if not self._gate.push(np.ascontiguousarray(frames["codes"])):
                return None
            if len(ends):
                return REASONS[int(items["reason"][ends[0]])]
        if self._gate.open:
            raise TimeoutError(f"nothing came from the peer for {self._stall:g} s")
        return None

    def close(self) -> None:
        """Hang up."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


@dataclass
class Script:
    """What the peer does with a segment: frames, then the reason; its pace and its faults."""

    codes: Callable[[int], Sequence[int]]
    frames: int = 25
    reason: str = "completed"
    # Seconds before each frame; the stream is cut into pieces of random length with a seed.
    pace: float = 0.0
    cut: int | None = None
    # The frame before which it hangs up, or before which it falls silent until `go` is set.
    dies_at: int = -1
    stalls_at: int = -1
    gap_at: int = -1
    go: threading.Event = field(default_factory=threading.Event)


class Peer:
    """The other end: a thread a connection, which follows the scripts in turn (the last one for ever)."""

    def __init__(self, groups: int, *scripts: Script) -> None:
        self.groups, self.scripts = groups, list(scripts)
        self.asked: list[dict[str, Any]] = []
        self.sent = 0
        self.cancelled = threading.Event()
        self.left = threading.Event()

    def connect(self) -> socket.socket:
        """A new connection; its peer's end is served by a thread."""
        ours, theirs = socket.socketpair()
        for end in ours, theirs:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        threading.Thread(target=self._serve, args=(theirs,), daemon=True).start()
        return ours

    def _serve(self, sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            while (message := self._line(sock)) is not None:
                if "cancel" in message:
                    self.cancelled.set()
                    continue
                self.asked.append(message)
                script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
                if not self._speak(sock, script):
                    break
        self.left.set()

    @staticmethod
    def _line(sock: socket.socket) -> dict[str, Any] | None:
        """The next message; None when the other side has hung up."""
        line = b""
        while not line.endswith(b"\n"):
            if not (char := sock.recv(1)):
                return None
            line += char
        message: dict[str, Any] = json.loads(line)
        return message

    def _stall(self, sock: socket.socket, script: Script) -> bool:
        """Send nothing until told to go on; False when the other side has cancelled or hung up."""
        while not script.go.is_set():
            if select.select([sock], [], [], 0.05)[0]:
                if (message := self._line(sock)) and "cancel" in message:
                    self.cancelled.set()
                return False
        return True

    def _speak(self, sock: socket.socket, script: Script) -> bool:
        dtype, rng = item_dtype(self.groups), random.Random(script.cut)
        out = b""
        for number in range(script.frames + 1):
            if number == script.dies_at:
                sock.sendall(out)
                return False
            if number == script.stalls_at:
                sock.sendall(out)
                out = b""
                if not self._stall(sock, script):
                    return False
            item = np.zeros(1, dtype)
            item["seq"] = number + (number >= script.gap_at >= 0)
            if number < script.frames:
                item["kind"], item["codes"] = FRAME, script.codes(number)
            else:
                item["kind"], item["reason"] = END, REASONS.index(script.reason)
            out += item.tobytes()
            if script.pace:
                time.sleep(script.pace)
            whole = script.cut is None or number == script.frames
            take = len(out) if whole else rng.randrange(len(out) + 1)
            try:
                sock.sendall(out[:take])
            except OSError:
                return False
            out = out[take:]
            self.sent = number
        return True


class DecoderOnly:
    """Parts of a device that decodes what a peer sends: no talker, no predictor, no prompts."""

    def __init__(
        self, peer: Peer, *, stall_seconds: float = 10.0, drop: int = 0, levels: Sequence[int] = ()
    ) -> None:
        voices = (Voice("elsewhere", ("english",), "a voice of a peer"),)
        self.info = ModelInfo("remote", 24_000, 1920, peer.groups, voices, ("auto", "english"))
        self._peer, self._stall, self._drop, self._levels = peer, stall_seconds, drop, levels
        self.made: SocketFrames | None = None

    def check(self, options: SpeakOptions) -> None:
        """Everything is accepted."""

    def source(self, pipe: Pipe) -> FrameSource:
        """The socket."""
        self.made = SocketFrames(
            pipe, self._peer.connect, entries=2150, stall_seconds=self._stall, drop_frames=self._drop
        )
        return self.made

    def decoder(self) -> DecoderHandle:
        """The scripted decoder, as of FakeParts."""
        return FakeDecoder(self._peer.groups, 1920, (1, 4, 8), levels=self._levels)

    def frames(self, text: str, options: SpeakOptions) -> int:
        """Not known."""
        return 0

    def close(self) -> None:
        """Nothing to release."""
