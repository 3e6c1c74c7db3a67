"""The installed service under a real systemd, in a container (systemd-nspawn); see tests/guest_root.py.

What is checked there is in tests/rigs/guest.sh.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import guest_root
import model_files
import pytest

from edgettsd import messages

ROOT = Path(__file__).parents[2]
NEEDED = ("systemd-nspawn", *guest_root.NEEDED)
SCRIPT = ROOT / "tests" / "rigs" / "guest.sh"

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, NEEDED)),
    reason=f"needs root and {', '.join(NEEDED)}",
)

SETTINGS = """
[model]
path = "/opt/bundle"
[audio]
sink = "fake"
[engine]
max_seconds = 5
"""


@pytest.fixture(scope="module")
def guest() -> Iterator[Path]:
    """A folder with `root`, the container's file system with edgettsd installed, and an empty `result`."""
    folder = Path(tempfile.mkdtemp(prefix="edgettsd-guest-", dir="/var/tmp"))
    root, result = folder / "root", folder / "result"
    for path in (root, result):
        path.mkdir()
    guest_root.install(root, folder / "build", SETTINGS, SCRIPT, model_files.bundle())
    ids = [f"{name}={value}\n" for name, value in vars(messages).items() if name.isupper()]
    (result / "ids").write_text("".join(ids))
    yield folder
    shutil.rmtree(folder)


def _boot(folder: Path) -> str:
    """Run the container until it powers off; returns its console."""
    binds = [f"--bind={folder / 'result'}:/result"]
    binds += [f"--bind-ro={source}:{target}" for target, source in guest_root.binds().items()]
    command = [
        "systemd-nspawn",
        "-D",
        folder / "root",
        "--register=no",
        "--keep-unit",
        "-b",
        "--console=pipe",
    ]
    process = subprocess.Popen(
        [*command, *binds],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        return process.communicate(timeout=400)[0]
    except subprocess.TimeoutExpired:
        # The first SIGTERM asks the container to power off.
        process.terminate()
        return process.communicate(timeout=60)[0] + "\n(the container did not end in time)"
    finally:
        process.kill()


@pytest.mark.timeout(1200)
def test_the_service_under_systemd(guest: Path) -> None:
    console = _boot(guest)
    checks = guest / "result" / "checks"
    log = guest / "result" / "log"
    story = (log.read_text(errors="replace") if log.exists() else "") + console
    assert checks.exists(), story
    lines = checks.read_text().splitlines()
    assert [line for line in lines if not line.startswith("ok ")] == [], story
    assert lines[-1] == "ok the script came to its end", story
    assert len(lines) >= len(re.findall(r"(?m)^check ", SCRIPT.read_text())), story
