import numpy as np
import numpy.typing as npt

SAMPLE_FORMATS: dict[str, int]

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
