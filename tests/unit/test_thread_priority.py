"""Threads that compute go after those that answer, in a daemon that was started with a higher priority."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

_SCRIPT = """
import json, os, sys
sys.path.insert(0, {tests!r})
try:
    os.setpriority(os.PRIO_PROCESS, 0, -5)
except PermissionError:
    pass
from pathlib import Path
from engine_rig import drive

async def test(rig):
    nice = {{}}
    reader, writer = os.pipe()
    render = rig.say(fd=writer)
    await rig.until(lambda: render in rig.started)
    for task in Path("/proc/self/task").iterdir():
        name, rest = (task / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
        nice[name] = int(rest.split()[16])
    os.close(reader)
    await rig.ended(render)
    print(json.dumps([os.getpriority(os.PRIO_PROCESS, 0), nice]))

drive(test)
"""


def test_computing_threads_go_after_the_loop_and_playout() -> None:
    script = _SCRIPT.format(tests=str(Path(__file__).parent))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-P", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment)
    loop, nice = json.loads(done.stdout)
    # Who may not raise the priority has the same for all.
    assert nice["tts-playout"] == loop
    assert nice["tts-generator"] == nice["tts-decoder"] == max(loop, 0)
    # So do those that serve readers.
    assert nice["tts-delivery"] == nice["tts-spool"] == max(loop, 0)
