import os

from cython_kernels.pipe import SinkHandle

KINDS: tuple[str, ...]
MIN_MEMORY: int
LOST: int

def descriptor_kind(fd: int) -> str:
    """What can be delivered to: "pipe", "socket" (a connected stream) or "file", open for writing.

    No file system is asked, so that none can make the caller wait. ValueError says what it is instead.
    """

class Store:
    """Where spools go when their memory is full: at most `size` bytes in one unlinked file in `folder`.

    None: no file. It is made when it is first needed. OSError when the process is short of memory or
    descriptors.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, size: int) -> None: ...
    def close(self) -> None:
        """End its thread: nothing more goes into the file, what is there can still be read."""
    @property
    def bell(self) -> int:
        """An eventfd: readable when a spool is over, was found full, or has room again."""
    @property
    def used(self) -> int:
        """Bytes in the file, of all spools."""
    @property
    def failed(self) -> int:
        """errno with which the file failed last; 0: it did not. Spools then hold what their memory holds."""

class Spool(SinkHandle):
    """A render on its way into the descriptor `fd`, which is the spool's from then on.

    It is the sink that playout appends to, and never makes it wait for the reader or a disk; a thread of its
    own writes to the descriptor: s16le, or "wav" with a header for `rate` Hz in front. `memory` bytes (at
    least MIN_MEMORY, rounded up to a power of two) are held in memory, what is more in the store. OSError or
    ValueError: the descriptor is still the caller's. All methods are for the loop's thread; none waits.
    """

    def __init__(
        self, store: Store, fd: int, format: str = "s16le", rate: int = 24000, *, memory: int = MIN_MEMORY
    ) -> None: ...
    def cancel(self) -> None:
        """The writer is to leave; what it has not written is lost. A WAV file's header is made right."""
    def kick(self) -> None:
        """Interrupt the writer's write. Repeat it until `over`: one that was about to begin is missed."""
    def skip(self, frames: int) -> None:
        """Playout's next `frames` frames are thrown away: the spool has them from before."""
    @property
    def over(self) -> bool:
        """The descriptor is closed, and nothing more is done."""
    @property
    def error(self) -> int:
        """Once over: 0 when all was delivered, or negative errno: -ECANCELED, -EPIPE (the reader has gone),
        -LOST (what was in the store cannot be read), or of another errno."""
    @property
    def frames(self) -> int:
        """Frames that playout has appended."""
    @property
    def delivered(self) -> int:
        """Bytes of samples that the descriptor has taken."""
    @property
    def stuck_since(self) -> int:
        """CLOCK_MONOTONIC ns since when the descriptor takes nothing of what there is; 0: it is not so."""
    @property
    def full_since(self) -> int:
        """CLOCK_MONOTONIC ns since when playout finds no room; 0: there is some."""
    @property
    def room(self) -> int:
        """Frames that fit into the memory now."""
