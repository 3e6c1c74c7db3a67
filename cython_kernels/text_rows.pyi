import numpy as np
import numpy.typing as npt

from cython_kernels.pipe import Pipe

class TextRows:
    """Rows of a segment's text, [n, hidden] float32, of which more may come while its frames are made.

    One thread writes and closes; the generator takes a row with each frame, and waits where the next one is
    not there and the text is not closed.
    """

    def __init__(self, pipe: Pipe, hidden: int, capacity: int = 1024) -> None:
        """Room for `capacity` rows that are not taken yet. Raises ValueError."""
    @staticmethod
    def whole(pipe: Pipe, rows: npt.NDArray[np.float32]) -> TextRows:
        """All rows of a text that does not grow."""
    def write(self, rows: npt.NDArray[np.float32]) -> int:
        """Append rows; how many of them there was room for, none after `close`. Raises ValueError."""
    def close(self) -> None:
        """No more rows come."""
