"""The sentences of one utterance by number, as far as its text is written."""

from __future__ import annotations

from edgettsd.engine.plan import Length, Planner, Sentence
from edgettsd.engine.text_source import TextSource
from edgettsd.text import SentenceStream


class Script:
    """Sentences that are certain stay as they are: whoever goes back finds the same ones again.

    For the generator thread. However a text was cut when it was written, its script is that of the whole.
    """

    def __init__(
        self, text: TextSource, frame_seconds: float, length: Length | None = None, rate: float = 1.0
    ) -> None:
        """Lengths as in `edgettsd.engine.plan.sentences`; of the text nothing is read before `grow`."""
        self._text = text
        self._stream = SentenceStream()
        self._planner = Planner(frame_seconds, length, rate)
        self._sentences: list[Sentence] = []
        self.complete = False

    def __len__(self) -> int:
        """How many sentences are certain."""
        return len(self._sentences)

    def __getitem__(self, index: int) -> Sentence:
        return self._sentences[index]

    def grow(self) -> None:
        """Read what was written since the last call."""
        if self.complete:
            return
        text, closed = self._text.take()
        if text or closed:
            for part in self._stream.feed(text, closed):
                self._sentences += self._planner.pieces(part)
        self.complete = closed

    @property
    def expected_frames(self) -> int:
        """Frames of all certain sentences: of the whole text once it is complete, else at least so many."""
        return sum(sentence.expected_frames for sentence in self._sentences)
