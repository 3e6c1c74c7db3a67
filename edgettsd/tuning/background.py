"""Calibration at the first start: long work in a lane of its own, only while nothing is spoken."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from edgettsd.lanes import DuringSpeech, Lane, LongWork

log = logging.getLogger(__name__)

# Exit status of `edgettsd --calibrate` on a machine on which others compute.
EXIT_LOADED = 6
IDLE_SECONDS = 60.0
CHILD_SECONDS = 180.0
RETRY_SECONDS = 600.0
ATTEMPTS = 3


async def calibrate_when_idle(
    lane: Lane, command: Sequence[str], *, wait: float = IDLE_SECONDS, retry: float = RETRY_SECONDS
) -> None:
    """Run `command` once nothing was spoken for `wait` seconds; speech ends it, and it starts over.

    Ends after success, after a failure other than a loaded machine, or after some attempts on a loaded one.
    """
    work = LongWork(
        "calibration",
        command,
        DuringSpeech.STARTS_OVER,
        quiet_seconds=wait,
        seconds=CHILD_SECONDS,
        # What is measured at a low priority says nothing of the daemon's threads.
        low=False,
    )
    for attempt in range(ATTEMPTS):
        if attempt:
            await asyncio.sleep(retry)
        job = lane.submit(work)
        try:
            status = await job.result()
        finally:
            job.cancel()
        if status == 0:
            log.info("calibrated: the next start uses the CPUs as measured")
            return
        if status != EXIT_LOADED:
            log.warning("calibration failed with status %s", status)
            return
    log.info("not calibrated: the machine is never idle; edgettsd --calibrate does it by hand")
