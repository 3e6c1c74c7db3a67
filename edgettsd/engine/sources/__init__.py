"""Where the frames of an utterance come from."""

from edgettsd.engine.sources._api import FrameSource, Order
from edgettsd.engine.sources.local import LocalFrames

__all__ = ["FrameSource", "LocalFrames", "Order"]
