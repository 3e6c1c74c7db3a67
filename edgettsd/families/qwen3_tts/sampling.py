"""Sampling parameters: the manifest's defaults merged with one request's options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgettsd.errors import InvalidOptionError
from edgettsd.families.plan import LoopSampling

MAX_TEMPERATURE = 5.0
MAX_REPETITION_PENALTY = 10.0


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling of one utterance.

    `suppress` lists [first, end) ranges of codebook-0 ids that are never drawn, `eos` excepted;
    `eos` is not drawn before `min_new_tokens` frames; at `max_frames` the utterance ends by its limit.
    """

    talker: LoopSampling
    predictor: LoopSampling
    eos: int
    min_new_tokens: int = 2
    suppress: tuple[tuple[int, int], ...] = ()
    max_frames: int = 4096

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Sampling:
        """The model's own defaults; the manifest is taken as already validated."""
        table = manifest["sampling"]
        return cls(
            talker=_loop(table["talker"]),
            predictor=_loop(table["predictor"]),
            eos=int(manifest["codec_tokens"]["eos"]),
            min_new_tokens=int(table["min_new_tokens"]),
            suppress=tuple((int(first), int(end)) for first, end in table["suppress"]),
            max_frames=int(table["max_frames"]),
        )

    def banned(self, vocab: int) -> npt.NDArray[np.uint8]:
        """Mask [vocab] of the suppressed codebook-0 ids, 1 where an id is never drawn."""
        mask = np.zeros(vocab, np.uint8)
        for first, end in self.suppress:
            mask[first:end] = 1
        mask[self.eos] = 0
        return mask

    def merged(
        self,
        *,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        repetition_penalty: float | None = None,
        max_frames: int | None = None,
    ) -> Sampling:
        """These parameters with a request's options in place of the defaults; None keeps a default.

        As in the official interface the options steer the talker. Temperature 0 makes both loops greedy.
        Raises InvalidOptionError naming the option, its value and what is allowed.
        """
        _check("temperature", temperature, 0.0, MAX_TEMPERATURE)
        _check("top_k", top_k, 0, 2**31 - 1)
        _check("repetition_penalty", repetition_penalty, 0.1, MAX_REPETITION_PENALTY)
        if top_p is not None and not 0.0 < top_p <= 1.0:
            raise InvalidOptionError(f"top_p is {top_p}: allowed is more than 0 up to 1")
        _check("max_frames", max_frames, 1, 2**31 - 1)
        changes = {"top_k": top_k, "top_p": top_p, "repetition_penalty": repetition_penalty}
        talker = replace(self.talker, **{k: v for k, v in changes.items() if v is not None})  # type: ignore[arg-type]
        predictor = self.predictor
        if temperature == 0:
            talker = replace(talker, do_sample=False)
            predictor = replace(predictor, do_sample=False)
        elif temperature is not None:
            talker = replace(talker, do_sample=True, temperature=float(temperature))
        frames = self.max_frames if max_frames is None else min(max_frames, self.max_frames)
        return replace(self, talker=talker, predictor=predictor, max_frames=frames)


def _loop(table: Mapping[str, Any]) -> LoopSampling:
    return LoopSampling(
        do_sample=bool(table["do_sample"]),
        temperature=float(table["temperature"]),
        top_k=int(table["top_k"]),
        top_p=float(table["top_p"]),
        repetition_penalty=float(table.get("repetition_penalty", 1.0)),
    )


def _check(name: str, value: float | None, low: float, high: float) -> None:
    # `not (low <= value)` also refuses NaN.
    if value is not None and not low <= value <= high:
        raise InvalidOptionError(f"{name} is {value}: allowed is {low} to {high}")
