"""The frame plan: which steps make a frame of codes, and how each draws its id; data that a family provides.

Every step draws one id, from the talker's logits or from those of a local step (the code predictor, which
starts anew with each frame). The id is a code of one codebook, or a decision whether there is another frame
at all. The talker's next input is the sum of the codes' rows and of the text row whose turn it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NO_ROW = -1
CONSTANT = -2


@dataclass(frozen=True, slots=True)
class LoopSampling:
    """How the steps of one sampler draw their ids.

    Applied in this order: repetition penalty, minimum length, suppression, temperature, top-k, top-p.
    Without `do_sample` the arg-max after the first three is taken. `top_k` 0 and `top_p` 1.0 are off.
    """

    do_sample: bool = True
    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0
    repetition_penalty: float = 1.0


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a frame.

    Attributes:
        kind: a code, or the decision to stop.
        source: whose logits.
        codebook: of a code: the codebook that it fills.
        sampler: number of the sampler. Steps with the same one share its parameters, its history of ids
            (which a repetition penalty looks at) and its random numbers.
        row: of a local step: the codebook whose code's row goes in before, CONSTANT for the constant row, or
            NO_ROW. The first local step gets the talker's hidden state besides, and only it may have no row.
        vocab: how many logits count, from the first; 0: all that the source has.
        end: the id that ends the sentence, -1: none. Only the first step can have one; a decision must.
    """

    kind: Literal["code", "stop"]
    source: Literal["talker", "local"]
    codebook: int = -1
    sampler: int = 0
    row: int = NO_ROW
    vocab: int = 0
    end: int = -1


@dataclass(frozen=True, slots=True)
class FramePlan:
    """The steps of a frame, in their order.

    Every codebook is filled once. `cython_kernels.frame_loop.Generator` refuses a plan that does not fit its
    kernels.
    """

    steps: tuple[Step, ...]

    @property
    def codebooks(self) -> int:
        """Codes of a frame."""
        return sum(step.kind == "code" for step in self.steps)

    @property
    def samplers(self) -> int:
        """How many samplers draw."""
        return 1 + max(step.sampler for step in self.steps)


def talker_first(groups: int, end: int) -> FramePlan:
    """Codebook 0 by the talker, whose id `end` ends the sentence; the others one by one by local steps.

    The talker's code has sampler 0, the others share sampler 1; each local step gets the row of the code
    before it.
    """
    fine = (Step("code", "local", group, sampler=1, row=group - 1) for group in range(1, groups))
    return FramePlan((Step("code", "talker", 0, end=end), *fine))


def decision_first(groups: int, vocab: int, *, end: int = 1, choices: int = 2) -> FramePlan:
    """A local decision of `choices` ids, of which `end` stops, by the hidden state; then every codebook.

    Codebook 0 follows the constant row, each other one the row of the code before it. The decision and every
    codebook have samplers of their own, so that a repetition penalty looks at one codebook's codes.
    """
    stop = Step("stop", "local", vocab=choices, end=end)
    codes = (
        Step("code", "local", group, sampler=1 + group, row=group - 1 if group else CONSTANT, vocab=vocab)
        for group in range(groups)
    )
    return FramePlan((stop, *codes))
