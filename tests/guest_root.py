"""A root file system with a small Debian, its systemd and edgettsd as it is installed here, for guests.

The Debian is made once with mmdebstrap and kept in build/cache. Into it go the system files as `meson
install` lays them out and the Python packages `edgettsd` and `cython_kernels`; interpreter and other packages
are the machine's own: bound into a container, copied for a virtual machine.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import system_files

import cython_kernels
import edgettsd

ROOT = Path(__file__).parents[1]
CACHE = ROOT / "build" / "cache"
PACKAGES = (
    "systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,kmod,libasound2,libsoxr0,libgomp1,python3"
)
NEEDED = ("mmdebstrap", "systemd-sysusers")
PROGRAM = """#!/bin/sh
export LD_LIBRARY_PATH={prefix}/lib PYTHONPATH=/opt/edgettsd:/opt/site
export PYTHONSAFEPATH=1 PYTHONDONTWRITEBYTECODE=1
exec {prefix}/bin/python{version} -c 'import sys; from {module} import main; sys.exit(main())' "$@"
"""
# Runs /opt/guest.sh once the system is up, and powers off.
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


def archive() -> Path:
    """The cached archive of the Debian; its name tells what is in it."""
    release = re.search(r"(?m)^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text())
    assert release, "this system is no Debian: /etc/os-release has no VERSION_CODENAME"
    path = CACHE / f"rootfs-{release[1]}-{hashlib.sha256(PACKAGES.encode()).hexdigest()[:8]}.tar"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part.tar")
        subprocess.run(
            ["mmdebstrap", "--variant=minbase", f"--include={PACKAGES}", release[1], part],
            check=True,
            timeout=540,
            stdin=subprocess.DEVNULL,
        )
        part.rename(path)
    return path


def binds() -> dict[str, Path]:
    """Where the machine's own files belong in the guest."""
    places = {"/opt/site": Path(sysconfig.get_path("purelib"))}
    if sys.base_prefix != "/usr":
        places["/opt/python"] = Path(sys.base_prefix)
    return places


def install(root: Path, work: Path, settings: str, script: Path, bundle: Path | None = None) -> None:
    """Unpack into the empty folder `root` and install; `work` is a folder for the build.

    `settings` is the text of a drop-in of the configuration, `script` what the guest runs as /opt/guest.sh,
    `bundle` a model for /opt/bundle.
    """
    # Device nodes are the guest's manager's.
    subprocess.run(["tar", "-xf", archive(), "-C", root, "--exclude=./dev/*"], check=True, timeout=120)
    system_files.install(root, work)
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
    drop_in = root / "etc" / "edgettsd" / "edgettsd.toml.d" / "10-test.toml"
    drop_in.parent.mkdir()
    drop_in.write_text(settings)
    if bundle is not None:
        shutil.copytree(bundle, root / "opt" / "bundle")
    shutil.copy(script, root / "opt" / "guest.sh")
    unit = root / "etc" / "systemd" / "system" / "edgettsd-checks.service"
    unit.write_text(CHECKS)
    wants = unit.with_name("multi-user.target.wants")
    wants.mkdir(exist_ok=True)
    (wants / unit.name).symlink_to("/" + unit.relative_to(root).as_posix())
