import numpy as np
import numpy.typing as npt

from cython_kernels.pipe import Pipe, SinkHandle

SAMPLE_FORMATS: dict[str, int]
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

class FakeSink(_Sink):
    """A sink that plays by the clock at `speed` (0: everything at once) and keeps the first `capture` frames.

    buffer: frames it holds. xrun_at: runs dry once at this heard frame; fail_at: fails there with fail_errno
    (-1: never), fail_times times (0: for ever). open_errno: the first open_fails opens fail (0: all).
    open_ms, close_ms, drain_ms: how long open and close take, how late the end comes.
    """

    rate: int
    def __init__(
        self,
        rate: int = 24000,
        *,
        speed: float = 1.0,
        buffer: int = 3840,
        capture: int = 0,
        xrun_at: int = -1,
        fail_at: int = -1,
        fail_errno: int = 19,
        fail_times: int = 0,
        open_errno: int = 0,
        open_fails: int = 0,
        open_ms: int = 0,
        drain_ms: int = 0,
        close_ms: int = 0,
        keep_open_ms: int = -1,
        stall_ms: int = 0,
        fade_ms: int = 0,
    ) -> None: ...
    def heard(self) -> bytes:
        """Captured frames, s16 in native byte order; for use while nothing plays."""
    def counts(self) -> dict[str, int]:
        """Totals: heard (frames), opens, closes, starts, drops, pauses, fades, gaps."""
    def fades(self) -> list[tuple[int, int, int, bool]]:
        """The first 8192 fades before an abort or around a pause: frames heard before it, its length in
        frames, how many of these were heard, whether it rises. For use while nothing plays."""
    def gaps(self) -> list[int]:
        """The first 8192 places where it ran dry, as frames heard before. For use while nothing plays."""

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

def faded(
    frames: bytes,
    length: int,
    *,
    at: int = 0,
    rising: bool = False,
    format: str = "S16",
    channels: int = 1,
) -> bytes:
    """Interleaved frames with the gains of a fade over `length` frames of which the first is number `at`."""

class Converter:
    """Streaming conversion of mono s16 to another rate, format ("S16", "S32", "S24", "S24_3", "F32";
    native byte order) and channel count, as the sound device sink does it.

    n frames give exactly round(n * out_rate / in_rate) frames by the end of flush().
    """

    def __init__(
        self, in_rate: int, out_rate: int, *, channels: int = 1, format: str = "S16", max_in: int = 480
    ) -> None: ...
    def feed(self, pcm: npt.NDArray[np.int16]) -> bytes:
        """Interleaved frames that are ready after `pcm` (shape [n])."""
    def flush(self) -> bytes:
        """The rest of the stream."""
    def reset(self) -> None:
        """Begin a new stream."""

def list_devices() -> list[tuple[str, str]]:
    """(name, description) of every PCM that alsa-lib knows for playback. OSError when its configuration is
    bad."""
