from cython_kernels.pipe import Pipe, SinkHandle

MAX_FADE_MS: int

class _Sink(SinkHandle):
    @property
    def in_use(self) -> bool:
        """Whether the playout thread has it in its hands."""
    @property
    def failed_step(self) -> str:
        """What the last open was doing when it failed ("rate", "format", ..); "" otherwise."""
    def counters(self) -> dict[str, int]:
        """Totals since creation: opens, xruns, suspends."""
    def close(self) -> None:
        """Close device or descriptor now. RuntimeError while playout uses it."""

class AlsaSink(_Sink):
    """A sound device.

    `rate` is that of the samples played, in Hz; the device's own rate, channels and format are chosen when
    0 or ""
    and converted to. It is opened by the first utterance and closed keep_open_ms after the last one (0: at
    once, -1: never). stall_ms without progress is an error (0: never). At the end a device drains (drain) or
    runs dry; None: kernel devices drain, others, whose draining may block, do not. Where sound ends in the
    middle of loud samples it fades over fade_ms, if the device lets what it has be changed (0: it is cut).
    ValueError names a parameter out of range.
    """

    device: str
    def __init__(
        self,
        device: str = "default",
        rate: int = 24000,
        *,
        device_rate: int = 0,
        channels: int = 0,
        format: str = "",
        period_ms: int = 20,
        buffer_ms: int = 160,
        keep_open_ms: int = 1000,
        stall_ms: int = 3000,
        fade_ms: int = 5,
        drain: bool | None = None,
    ) -> None: ...
    def info(self) -> dict[str, int | str | bool]:
        """What the device agreed to at the last open: rate, channels, format, period_frames, buffer_frames,
        can_pause, converts_rate; zeros before."""
    def probe(self) -> dict[str, int | str | bool]:
        """Open, close, and return info().

        OSError with the errno (EBUSY: in use by another program) and the step that failed; RuntimeError while
        playout uses it.
        """

class FdSink(_Sink):
    """A pipe, socket or file that receives s16le or WAV ("wav"), never blocking longer than the
    descriptor's own writes of 4096 bytes do.

    With close_fd the descriptor belongs to the sink and is closed at the end of the utterance, before its
    event;
    with keep several utterances go into one stream and close() ends it. A reader that takes nothing for
    stall_ms is an error (0: never); one that has gone gives EPIPE.
    """

    def __init__(
        self,
        fd: int,
        format: str = "s16le",
        rate: int = 24000,
        *,
        close_fd: bool = True,
        keep: bool = False,
        stall_ms: int = 0,
    ) -> None: ...

class ClockSink(_Sink):
    """No device: plays by the clock at `speed` (0: everything is heard at once) and keeps nothing.

    buffer: frames it holds.
    """

    def __init__(self, rate: int = 24000, *, speed: float = 1.0, buffer: int = 3840) -> None: ...

class Playout:
    """The playout thread's state: PCM of the live generation goes from `pipe` to a sink.

    preroll_ms and postroll_ms of silence surround every utterance on a paced sink. Every generation ends
    with one
    event: "finished" (value: samples heard), "dropped" (another became live; samples heard) or "device"
    (value:
    negative errno). From then on the thread does not touch the generation's sink, unless it is kept open.
    """

    pipe: Pipe
    def __init__(self, pipe: Pipe, *, preroll_ms: int = 0, postroll_ms: int = 0) -> None: ...
    def set_sink(self, sink: SinkHandle | None) -> None:
        """The sink for the generation that pipe.next_generation() makes live next, and those after it.

        Call it on the loop's thread. A reference is kept for as long as the thread may use the sink.
        """
    def uses(self, sink: SinkHandle) -> bool:
        """Whether the thread has the sink or may take it up."""
    def run(self) -> None:
        """Play until pipe.stop(); without the GIL, in a thread of its own. RuntimeError when it runs
        already."""
