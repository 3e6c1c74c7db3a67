"""Installs the system files (units, bus files, catalog) as `meson install` does, compiling nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def install(destdir: Path, work: Path) -> None:
    """Install below `destdir` with prefix /usr; `work` is an empty folder for the build."""
    source = work / "source"
    (source / "edgettsd").mkdir(parents=True)
    shutil.copytree(ROOT / "systemd", source / "systemd")
    shutil.copytree(ROOT / "edgettsd" / "bus", source / "edgettsd" / "bus")
    (source / "meson.build").write_text("project('files', version: '1')\nsubdir('systemd')\n")
    meson = [sys.executable, "-m", "mesonbuild.mesonmain"]
    for command in (
        [*meson, "setup", "--prefix=/usr", "--sysconfdir=/etc", work / "build", source],
        [*meson, "install", "-C", work / "build", "--destdir", destdir],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
