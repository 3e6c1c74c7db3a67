"""Text front end: clean up what a client sent and cut it into sentences.

Pure functions without state: `normalise`, then `split_sentences`; `speakable` tells whether there is
anything to say at all. `SentenceStream` does the same for a text that is still being written.
"""

from __future__ import annotations

from edgettsd.text.growing import SentenceStream
from edgettsd.text.normalise import normalise, speakable
from edgettsd.text.sentences import DEFAULT_MAX_CHARS, split_sentences

__all__ = ["DEFAULT_MAX_CHARS", "SentenceStream", "normalise", "speakable", "split_sentences"]
