"""Ids of the log entries that the journal's catalog explains (systemd/edgettsd.catalog).

Used as ``log.error(..., extra={"message_id": messages.DEVICE_ERROR})``; see edgettsd.log.
"""

from __future__ import annotations

STARTED = "5c1e3f6a0d8b4c0f9a7e2b64d1f0a3c1"
MODEL_REFUSED = "9b2d7a54e6c14f3e8a05c7d3f1b86e02"
DEVICE_ERROR = "d07f4b8c21a94e6db35e9f0a6c7812d3"
STALLED = "3ea86c0f97d24b1c84f52d6b0e19a7f4"
THROTTLED = "a46d19e3b57f4082bc6e80d2f3a51795"
TASK_FAILED = "6f1c0b7e94d34a58a2e7153d8c9b40f6"
