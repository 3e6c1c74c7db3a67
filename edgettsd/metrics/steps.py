"""Statistics over the pipe's step records: how long each stage takes, frame by frame."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from cython_kernels import pipe as p

Records = npt.NDArray[np.void]

# Records kept of each kind: some minutes of speech, a few MB.
KEEP = 4096
# Above this share of a step's wall time without a CPU the step counts as disturbed.
DISTURBED = 0.02


def quantiles(ns: npt.ArrayLike) -> dict[str, float]:
    """Count, median, p95 and maximum, in ms; {} for nothing."""
    values = np.asarray(ns, np.float64) / 1e6
    if values.size == 0:
        return {}
    return {
        "count": int(values.size),
        "median": round(float(np.median(values)), 3),
        "p95": round(float(np.quantile(values, 0.95)), 3),
        "max": round(float(values.max()), 3),
    }


def disturbed(records: Records) -> npt.NDArray[np.bool_]:
    """Which steps waited for a CPU that something else had: their times say little about the stage."""
    mask: npt.NDArray[np.bool_] = records["delay_ns"] > DISTURBED * records["wall_ns"]
    return mask


class StepStatistics:
    """The most recent step records."""

    def __init__(self, keep: int = KEEP) -> None:
        self._keep = keep
        self._kinds: dict[int, Records] = {
            kind: np.zeros(0, p.STEP_DTYPE) for kind in (p.STEP_PREFILL, p.STEP_FRAME, p.STEP_DECODE)
        }

    def add(self, records: Records) -> None:
        """Take up what `Pipe.steps` gave."""
        for kind, kept in self._kinds.items():
            new = records[records["kind"] == kind]
            if len(new):
                self._kinds[kind] = np.concatenate([kept, new])[-self._keep :]

    def records(self, kind: int, generations: Iterable[int] | None = None) -> Records:
        """The records of a kind (STEP_PREFILL and so on), of some generations only if given."""
        kept = self._kinds[kind]
        if generations is None:
            return kept
        return kept[np.isin(kept["generation"], list(generations))]

    def report(self, generations: Iterable[int] | None = None) -> dict[str, Any]:
        """Milliseconds by stage, over undisturbed steps if there are any; with the share of the others."""
        wanted = None if generations is None else list(generations)
        result: dict[str, Any] = {}
        prefill = self.records(p.STEP_PREFILL, wanted)
        if len(prefill):
            result["prefill"] = {**quantiles(prefill["wall_ns"]), "rows": int(np.median(prefill["n"]))}
        frames, share = _calm(self.records(p.STEP_FRAME, wanted))
        if len(frames):
            part, n = frames["part_ns"], int(frames["n"].max())
            substeps = part[:, p.STEP_SUBSTEPS : p.STEP_SUBSTEPS + n]
            busy = frames["wall_ns"] - part[:, p.STEP_WAIT]
            result["frame"] = {**quantiles(busy), "disturbed": share}
            result["talker"] = quantiles(part[:, p.STEP_TALKER])
            result["predictor"] = quantiles(substeps.sum(axis=1))
            result["substeps"] = [quantiles(substeps[:, k])["median"] for k in range(n)]
            result["sampling"] = quantiles(part[:, p.STEP_SAMPLE])
            result["wait"] = quantiles(part[:, p.STEP_WAIT])
            known = part[:, p.STEP_TALKER] + substeps.sum(axis=1) + part[:, p.STEP_SAMPLE]
            result["loop"] = quantiles(busy - known)
        chunks = self.records(p.STEP_DECODE, wanted)
        for size in np.unique(chunks["n"]):
            calm, share = _calm(chunks[chunks["n"] == size])
            times = calm["part_ns"][:, p.STEP_DECODER]
            entry = {**quantiles(times), "disturbed": share}
            entry["frame_median"] = round(entry["median"] / int(size), 3)
            result.setdefault("decoder", {})[str(size)] = entry
        return result

    def first_audio(self, generation: int, accepted_ns: int, started_ns: int) -> dict[str, float]:
        """What passed between Speak and the first sample at the device, in ms; {} when it is not known.

        front_end: queue, text and prompt; first_frame: codebook 0 and the predictor; handover: until the
        decoder took the frame; start: further frames that had to be there before playing, opening the device.
        """
        prefill = self.records(p.STEP_PREFILL, [generation])
        frames = self.records(p.STEP_FRAME, [generation])
        chunks = self.records(p.STEP_DECODE, [generation])
        if not (len(prefill) and len(frames) and len(chunks)):
            return {}
        part = frames[0]["part_ns"]
        n = int(frames[0]["n"])
        first = int(part[p.STEP_SAMPLE] + part[p.STEP_SUBSTEPS : p.STEP_SUBSTEPS + n].sum())
        prefilled = int(prefill[0]["t_ns"] + prefill[0]["wall_ns"])
        decoded = int(chunks[0]["t_ns"] + chunks[0]["part_ns"][p.STEP_DECODER])
        split = {
            "front_end": int(prefill[0]["t_ns"]) - accepted_ns,
            "prefill": int(prefill[0]["wall_ns"]),
            "first_frame": first,
            "handover": int(chunks[0]["t_ns"]) - prefilled - first,
            "first_decode": int(chunks[0]["part_ns"][p.STEP_DECODER]),
            "start": started_ns - decoded,
            "total": started_ns - accepted_ns,
        }
        return {name: round(ns / 1e6, 3) for name, ns in split.items()}


def _calm(records: Records) -> tuple[Records, float]:
    """The undisturbed records, or all when none is, and the share of disturbed ones."""
    if not len(records):
        return records, 0.0
    mask = disturbed(records)
    share = round(float(mask.mean()), 3)
    return (records if mask.all() else records[~mask]), share
