"""What the virtual machine of tools/check-vm compares, here on a device that keeps all it is given."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import vm_check
from audio_rigs import make_exact_rig, with_tail

TEXT = "The quick brown fox jumps over the lazy dog."
CONFIG = """
[audio]
device = "rig"
period_ms = 100
buffer_ms = 3000
fade_ms = {fade}
[engine]
max_seconds = 5
"""


@pytest.mark.parametrize("fade", [4, 0])
def test_a_device_gets_what_is_synthesised_and_the_echo_of_a_loud_end(start, tmp_path, fade: int) -> None:
    """A reader of SynthesizeToFd gets samples, not sound: no echo. Nor is there one without fades."""
    rig = make_exact_rig(tmp_path / "rig")
    system = start(engine="scripted:frames=40", config=CONFIG.format(fade=fade), env=os.environ | rig.env)
    made, heard = tmp_path / "made.raw", tmp_path / "heard.raw"
    assert system.ctl("speak", "-o", str(made), TEXT).returncode == 0
    assert system.ctl("speak", "-w", TEXT).returncode == 0
    samples = made.read_bytes()
    assert len(samples) == 40 * 1920 * 2
    echo = with_tail(samples, 4)[len(samples) :] if fade else b""
    assert len(echo) == 24 * fade * 2
    assert rig.heard() == samples + echo
    silence = bytes(4800)
    heard.write_bytes(silence + rig.heard() + silence)
    command = [sys.executable, "-P", "-c", vm_check.SAME, str(made), str(heard)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # The machine plays with fades of 4 ms.
    assert (done.returncode == 0) is (fade == 4), done.stdout + done.stderr
