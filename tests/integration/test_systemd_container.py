"""The installed service under a real systemd, in a container (systemd-nspawn).

The container's root file system is a small Debian, made once with mmdebstrap and kept in build/cache. Into it
go the system files as `meson install` lays them out, a tiny model, and by bind mounts this interpreter with
its packages. What is checked there is in tests/rigs/guest.sh.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import model_files
import pytest
import system_files

import cython_kernels
import edgettsd
from edgettsd import messages

ROOT = Path(__file__).parents[2]
CACHE = ROOT / "build" / "cache"
PACKAGES = "systemd,systemd-sysv,dbus,libasound2,libsoxr0,libgomp1,python3"
NEEDED = ("systemd-nspawn", "mmdebstrap", "systemd-sysusers")

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
PROGRAM = """#!/bin/sh
export LD_LIBRARY_PATH={prefix}/lib PYTHONPATH=/opt/edgettsd:/opt/site
export PYTHONSAFEPATH=1 PYTHONDONTWRITEBYTECODE=1
exec {prefix}/bin/python{version} -c 'import sys; from {module} import main; sys.exit(main())' "$@"
"""
CHECKS = """[Unit]
Description=Checks of edgettsd
After=dbus.socket
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=oneshot
ExecStart=/opt/guest.sh
TimeoutStartSec=infinity
[Install]
WantedBy=multi-user.target
"""


def _rootfs() -> Path:
    """The cached archive of the container's file system."""
    release = re.search(r"(?m)^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text())
    assert release, "this system is no Debian: /etc/os-release has no VERSION_CODENAME"
    archive = CACHE / f"rootfs-{release[1]}.tar"
    if not archive.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        part = archive.with_suffix(".part.tar")
        subprocess.run(
            ["mmdebstrap", "--variant=minbase", f"--include={PACKAGES}", release[1], part],
            check=True,
            timeout=540,
            stdin=subprocess.DEVNULL,
        )
        part.rename(archive)
    return archive


@pytest.fixture(scope="module")
def guest() -> Iterator[Path]:
    """A folder with `root`, the container's file system with edgettsd installed, and an empty `result`."""
    folder = Path(tempfile.mkdtemp(prefix="edgettsd-guest-", dir="/var/tmp"))
    root, result = folder / "root", folder / "result"
    for path in (root, result):
        path.mkdir()
    archive = _rootfs()
    # Device nodes are the container manager's.
    subprocess.run(["tar", "-xf", archive, "-C", root, "--exclude=./dev/*"], check=True, timeout=120)
    system_files.install(root, folder / "build")
    subprocess.run(["systemd-sysusers", f"--root={root}"], check=True, timeout=60, capture_output=True)
    product = root / "opt" / "edgettsd"
    for package in (edgettsd, cython_kernels):
        source = Path(package.__file__ or "").parent
        shutil.copytree(source, product / source.name)
    prefix = "/usr" if sys.base_prefix == "/usr" else "/opt/python"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for name, module in (("edgettsd", "edgettsd.daemon"), ("edgettsctl", "edgettsd.ctl")):
        program = root / "usr" / "bin" / name
        program.write_text(PROGRAM.format(prefix=prefix, version=version, module=module))
        program.chmod(0o755)
    settings = root / "etc" / "edgettsd" / "edgettsd.toml.d" / "10-test.toml"
    settings.parent.mkdir()
    settings.write_text(SETTINGS)
    shutil.copytree(model_files.bundle(), root / "opt" / "bundle")
    shutil.copy(ROOT / "tests" / "rigs" / "guest.sh", root / "opt")
    unit = root / "etc" / "systemd" / "system" / "edgettsd-checks.service"
    unit.write_text(CHECKS)
    wants = unit.with_name("multi-user.target.wants")
    wants.mkdir(exist_ok=True)
    (wants / unit.name).symlink_to("/" + unit.relative_to(root).as_posix())
    ids = [f"{name}={value}\n" for name, value in vars(messages).items() if name.isupper()]
    (result / "ids").write_text("".join(ids))
    yield folder
    shutil.rmtree(folder)


def _boot(folder: Path) -> str:
    """Run the container until it powers off; returns its console."""
    binds = [f"--bind={folder / 'result'}:/result", f"--bind-ro={sysconfig.get_path('purelib')}:/opt/site"]
    if sys.base_prefix != "/usr":
        binds.append(f"--bind-ro={sys.base_prefix}:/opt/python")
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
    script = (ROOT / "tests" / "rigs" / "guest.sh").read_text()
    assert [line for line in lines if not line.startswith("ok ")] == [], story
    assert len(lines) == len(re.findall(r"(?m)^check ", script)), story
