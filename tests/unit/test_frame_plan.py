"""The frame loop does what a frame plan says: other steps, other sources, other ends, the same bounds."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from cython_kernels.fake import FakePredictor, FakeTalker, frame_codes
from cython_kernels.frame_loop import Generator
from cython_kernels.pipe import Pipe
from edgettsd.families.plan import CONSTANT, FramePlan, LoopSampling, Step, decision_first, talker_first

HIDDEN, VOCAB, GROUPS = 6, 40, 3
GREEDY = LoopSampling(do_sample=False)


def generator(
    plan: FramePlan,
    groups: int = GROUPS,
    predictor: FakePredictor | None = None,
    eos_after: int = -1,
    constant: Any = None,
    vocab: int = VOCAB,
) -> Generator:
    talker = FakeTalker(HIDDEN, vocab, eos_after=eos_after, eos_id=vocab - 1)
    tables = [np.zeros((vocab, HIDDEN), np.float32) for _ in range(groups)]
    pipe = Pipe(groups, 10, 8000, codes_capacity=512)
    assert pipe.next_generation() == 1
    return Generator(pipe, talker, predictor, tables, plan, constant)


def run(loop: Generator, plan: FramePlan, **options: Any) -> dict[str, Any]:
    zeros = np.zeros((1, HIDDEN), np.float32)
    samplers = options.pop("samplers", (GREEDY,) * plan.samplers)
    return loop.run(
        1, zeros, zeros[:0], zeros[0], samplers=samplers, **{"collect": 20, "max_frames": 20} | options
    )


def local(stop_after: int, **options: Any) -> FakePredictor:
    return FakePredictor(GROUPS, VOCAB, input_hidden=HIDDEN, decides=True, stop_after=stop_after, **options)


def by_formula(frame: int, first: bool = False) -> list[int]:
    """Codes of a frame whose codebooks are all local, or with `first` of one whose first is the talker's."""
    if first:
        return frame_codes(frame, groups=GROUPS, vocab=VOCAB, codes=VOCAB - 1)
    return [(13 * frame + 7 * group + 5) % VOCAB for group in range(GROUPS)]


def test_the_talkers_code_first() -> None:
    plan = talker_first(GROUPS, VOCAB - 1)
    predictor = FakePredictor(GROUPS, VOCAB, input_hidden=HIDDEN)
    found = run(generator(plan, predictor=predictor, eos_after=4), plan)
    assert (found["reason"], found["frames"], found["substeps"]) == ("completed", 4, 8)
    assert found["codes"].tolist() == [by_formula(frame, first=True) for frame in range(4)]


def test_a_decision_and_then_every_code() -> None:
    plan = decision_first(GROUPS, VOCAB)
    constant = np.ones(HIDDEN, np.float32)
    found = run(generator(plan, predictor=local(5), constant=constant), plan)
    assert (found["reason"], found["frames"]) == ("completed", 5)
    # Of the sixth frame only the decision was asked for.
    assert found["substeps"] == 5 * (GROUPS + 1) + 1
    assert found["codes"].tolist() == [by_formula(frame) for frame in range(5)]


def test_one_code_of_the_talker_and_no_predictor() -> None:
    plan = FramePlan((Step("code", "talker", 0, end=VOCAB - 1),))
    found = run(generator(plan, groups=1, eos_after=7), plan)
    assert (found["reason"], found["frames"], found["substeps"]) == ("completed", 7, 0)
    assert found["codes"][:, 0].tolist() == [(31 * frame + 7) % (VOCAB - 1) for frame in range(7)]


def test_a_decision_by_the_talkers_own_logits() -> None:
    stop = Step("stop", "talker", end=VOCAB - 1)
    plan = FramePlan((stop, Step("code", "talker", 0, sampler=1)))
    found = run(generator(plan, groups=1, eos_after=3), plan)
    assert (found["reason"], found["frames"]) == ("completed", 3)


def test_the_decision_waits_for_the_least_length_and_does_not_count_where_the_length_is_known() -> None:
    plan, constant = decision_first(GROUPS, VOCAB), np.ones(HIDDEN, np.float32)
    found = run(generator(plan, predictor=local(0), constant=constant), plan, min_frames=3)
    assert (found["reason"], found["frames"]) == ("completed", 3)
    found = run(generator(plan, predictor=local(2), constant=constant), plan, end_frames=6)
    assert (found["reason"], found["frames"]) == ("completed", 6)


def test_a_plan_without_an_end_stops_at_its_limit_and_when_it_repeats() -> None:
    plan, constant = decision_first(GROUPS, VOCAB), np.ones(HIDDEN, np.float32)
    found = run(generator(plan, predictor=local(-1), constant=constant), plan, max_frames=9)
    assert (found["reason"], found["frames"]) == ("limit", 9)


def fixed() -> tuple[FramePlan, Generator]:
    """A plan and its loop whose kernels say the same codes 5, 12 and 6 in every frame."""
    plan = decision_first(GROUPS, 13)
    fake = FakePredictor(GROUPS, 13, input_hidden=HIDDEN, decides=True)
    return plan, generator(plan, predictor=fake, constant=np.ones(HIDDEN, np.float32), vocab=13)


def test_codebook_0_that_repeats_is_a_runaway_also_where_a_decision_comes_first() -> None:
    plan, loop = fixed()
    found = run(loop, plan, max_frames=400, repeat_frames=10, repeat_period=1)
    assert found["reason"] == "runaway" and 10 <= found["frames"] <= 12
    assert found["codes"].tolist() == [[5, 12, 6]] * found["frames"]


@pytest.mark.parametrize(
    ("shared", "frames"),
    [(False, [[0, 0, 0], [1, 1, 1], [2, 2, 2]]), (True, [[0, 1, 2], [3, 4, 7], [8, 9, 10]])],
)
def test_steps_share_a_history_where_they_share_a_sampler(shared: bool, frames: list[list[int]]) -> None:
    """What the kernels want is banned: of the others the first is taken that was not said before."""
    plan, loop = fixed()
    if shared:
        stop, *codes = plan.steps
        plan = FramePlan((stop, *(dataclasses.replace(step, sampler=1) for step in codes)))
        fake = FakePredictor(GROUPS, 13, input_hidden=HIDDEN, decides=True)
        loop = generator(plan, predictor=fake, constant=np.ones(HIDDEN, np.float32), vocab=13)
    mask = np.zeros(13, np.uint8)
    mask[[5, 6, 12]] = 1
    penalty = LoopSampling(do_sample=False, repetition_penalty=2.0)
    samplers = (GREEDY, *[penalty] * (plan.samplers - 1))
    found = run(loop, plan, samplers=samplers, banned=(None, mask, mask, mask), max_frames=3)
    assert found["codes"].tolist() == frames


def test_masks_belong_to_steps() -> None:
    plan, constant = decision_first(GROUPS, VOCAB), np.ones(HIDDEN, np.float32)
    loop = generator(plan, predictor=local(4), constant=constant)
    mask = np.zeros(VOCAB, np.uint8)
    mask[by_formula(0)[1]] = 1
    found = run(loop, plan, banned=(None, None, mask))
    assert found["codes"][0].tolist() == [by_formula(0)[0], 0, by_formula(0)[2]]
    with pytest.raises(ValueError, match=r"banned\[0\] is uint8 \(40,\): uint8 \[2\] expected"):
        run(loop, plan, banned=(mask,))
    with pytest.raises(ValueError, match="5 masks given, the plan has 4 steps"):
        run(loop, plan, banned=(None,) * 5)
    with pytest.raises(ValueError, match="samplers: 1 given, 4 expected"):
        run(loop, plan, samplers=(GREEDY,))


def test_a_failing_local_step_ends_the_segment() -> None:
    plan, constant = decision_first(GROUPS, VOCAB), np.ones(HIDDEN, np.float32)
    found = run(generator(plan, predictor=local(-1, fail_at=2), constant=constant), plan)
    assert (found["reason"], found["error"], found["frames"]) == ("error", "backend", 2)


def changed(plan: FramePlan, index: int, **values: Any) -> FramePlan:
    steps = list(plan.steps)
    steps[index] = dataclasses.replace(steps[index], **values)
    return FramePlan(tuple(steps))


@pytest.mark.parametrize(
    "plan",
    [
        changed(decision_first(GROUPS, VOCAB), 1, codebook=1),  # filled twice, another one never
        changed(decision_first(GROUPS, VOCAB), 1, codebook=GROUPS),
        changed(decision_first(GROUPS, VOCAB), 2, row=2),  # a row of a code that is not there yet
        changed(decision_first(GROUPS, VOCAB), 2, row=-1),
        changed(decision_first(GROUPS, VOCAB), 2, end=3),  # a frame is not given up in the middle
        changed(decision_first(GROUPS, VOCAB), 0, end=-1),  # a decision that decides nothing
        changed(decision_first(GROUPS, VOCAB), 0, end=2),
        changed(decision_first(GROUPS, VOCAB), 3, sampler=9),  # samplers that nobody uses
        changed(decision_first(GROUPS, VOCAB), 3, vocab=VOCAB + 1),
        changed(decision_first(GROUPS, VOCAB), 3, vocab=-1),
        FramePlan(decision_first(GROUPS, VOCAB).steps[:-1]),
        talker_first(GROUPS, VOCAB - 1),  # another number of local steps than the predictor makes
    ],
)
def test_a_plan_that_does_not_fit_is_refused(plan: FramePlan) -> None:
    with pytest.raises(ValueError, match="do not fit together"):
        generator(plan, predictor=local(3), constant=np.ones(HIDDEN, np.float32))


def test_kernels_and_rows_that_a_plan_needs_are_demanded() -> None:
    plan = decision_first(GROUPS, VOCAB)
    assert plan.steps[1].row == CONSTANT
    with pytest.raises(ValueError, match="do not fit together"):
        generator(plan, predictor=local(3))
    with pytest.raises(ValueError, match=r"constant is float32 \(2,\): float32 \[6\] expected"):
        generator(plan, predictor=local(3), constant=np.ones(2, np.float32))
    with pytest.raises(ValueError, match="do not fit together"):
        generator(talker_first(GROUPS, VOCAB - 1), predictor=None)
    with pytest.raises(ValueError, match="plan has 0 steps"):
        generator(FramePlan(()))
    with pytest.raises(ValueError, match="kind is code or stop"):
        generator(changed(plan, 0, kind="end"), predictor=local(3))


def test_the_plan_counts_its_codebooks_and_samplers() -> None:
    assert (talker_first(16, 5).codebooks, talker_first(16, 5).samplers) == (16, 2)
    plan = decision_first(16, 1024)
    assert (len(plan.steps), plan.codebooks, plan.samplers) == (17, 16, 17)
