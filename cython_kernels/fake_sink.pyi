from cython_kernels.playout import _Sink

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
