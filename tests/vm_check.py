"""edgettsd in a virtual machine with a kernel of its own: what a container cannot show.

Debian's kernel with snd-aloop, control groups of version 2, systemd, and edgettsd as it is installed here;
all of it is in the machine's memory (initramfs). The machine is emulated, so its processor lacks what
llama.cpp was compiled for here: the kernels are scripted ones, everything else is real. What is checked there
is in tests/rigs/vm.sh. Run by tools/check-vm.
"""

from __future__ import annotations

import argparse
import inspect
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools")]

import guest_root  # noqa: E402
from audio_rigs import with_tail  # noqa: E402

SCRIPT = ROOT / "tests" / "rigs" / "vm.sh"
SETTINGS = """
[audio]
device = "hw:Loopback,0,0"
# An emulated machine stands still for longer than a sound card's usual buffer.
period_ms = 100
buffer_ms = 3000
# snd-aloop copies by timer ticks of 4 ms, and where a sound ends within one it clears the start of that
# tick instead of the rest (clear_capture_buf, Linux 6.1): so the echo, like every frame, ends with a tick.
fade_ms = 4
[engine]
max_seconds = 5
"""
# Of this interpreter's packages only what the daemon imports.
PACKAGES = ("numpy*", "dbus_fast*", "llama_cpp*", "ai_edge_litert*", "typing_extensions*")
# Captures s16 mono at 24 kHz from the other end of the loop, which gives silence while nothing is played.
CAPTURE = """
import ctypes, sys, time
alsa, pcm = ctypes.CDLL("libasound.so.2"), ctypes.c_void_p()
assert alsa.snd_pcm_open(ctypes.byref(pcm), b"hw:Loopback,1,0", 1, 0) == 0
assert alsa.snd_pcm_set_params(pcm, 2, 3, 1, 24000, 0, 500000) == 0
assert alsa.snd_pcm_start(pcm) == 0
data, end, buffer = [], time.monotonic() + float(sys.argv[2]), ctypes.create_string_buffer(2 * 2400)
alsa.snd_pcm_readi.restype = ctypes.c_long
while time.monotonic() < end:
    frames = alsa.snd_pcm_readi(pcm, buffer, ctypes.c_ulong(2400))
    if frames < 0:
        sys.exit(f"capture: {frames}")
    data.append(buffer.raw[: 2 * frames])
open(sys.argv[1], "wb").write(b"".join(data))
"""
# Whether a capture holds one utterance and nothing else: its samples, the fading echo of a loud end, silence.
SAME = f"""
from __future__ import annotations
import sys
import numpy as np
from cython_kernels.probe_audio import faded
{inspect.getsource(with_tail)}
made, heard = (open(name, "rb").read() for name in sys.argv[1:])
played = with_tail(made, 4)
at = heard.find(played)
print(len(made), "bytes made,", len(played), "to be played,", len(heard), "captured, found at", at)
if at < 0:
    want, got = np.frombuffer(played, np.int16), np.frombuffer(heard, np.int16)
    start = int(np.argmax(got != 0)) - int(np.argmax(want != 0))
    same = min(len(want), len(got) - start)
    differ = np.flatnonzero(want[:same] != got[start : start + same])
    print("its first", differ[0] if len(differ) else same, "of", len(want), "samples are at", start)
    for place in differ[:1]:
        print("then", got[start + place :][:99], "for", want[place :][:8], "; the last ones:", want[-4:])
first, last = heard[:max(at, 0)], heard[at + len(played):] if at >= 0 else heard
for name, part in ("before", first), ("after", last):
    loud = [n for n in range(0, len(part), 2) if any(part[n : n + 2])]
    print(len(loud), "samples that are not silent", name, "it", loud[:1], loud[-1:])
sys.exit(not (len(made) > 24000 and any(made) and at >= 0 and at % 2 == 0 and not any(first + last)))
"""


def kernel(folder: Path) -> tuple[Path, Path]:
    """Debian's kernel and its modules' folder, unpacked into `folder`, which keeps them for the next run."""
    done = folder / "done"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        depends = subprocess.check_output(["apt-cache", "depends", "linux-image-amd64"], text=True)
        match = re.search(r"Depends: (linux-image-\S+)", depends)
        assert match, depends
        subprocess.run(["apt-get", "-q", "download", match[1]], cwd=folder, check=True, timeout=300)
        (package,) = folder.glob("linux-image-*.deb")
        wanted = "'./boot/vmlinuz*' './lib/modules/*'"
        unpack = f"dpkg-deb --fsys-tarfile {package.name} | tar -xf - --wildcards {wanted}"
        subprocess.run(["bash", "-ec", unpack], cwd=folder, check=True, timeout=300)
        package.unlink()
        done.touch()
    (image,) = folder.glob("boot/vmlinuz-*")
    (modules,) = folder.glob("lib/modules/*")
    return image, modules


def root_archive(work: Path, modules: Path) -> Path:
    """The machine's whole file system as an initramfs."""
    root = work / "root"
    root.mkdir()
    guest_root.install(root, work / "build", SETTINGS, SCRIPT)
    for target, source in guest_root.binds().items():
        place = root / target.removeprefix("/")
        if target == "/opt/site":
            place.mkdir()
            for pattern in PACKAGES:
                for path in source.glob(pattern):
                    copy = shutil.copytree if path.is_dir() else shutil.copy
                    copy(path, place / path.name)
        else:
            ignore = shutil.ignore_patterns("site-packages", "test", "__pycache__", "*.a", "idlelib")
            shutil.copytree(source, place, symlinks=True, ignore=ignore)
    python = (root / "usr/bin/edgettsctl").read_text().splitlines()[-1].split()[1]
    for name, text in (("capture", CAPTURE), ("same", SAME)):
        (root / f"opt/{name}.py").write_text(text)
        script = root / f"opt/{name}.sh"
        export = f"export LD_LIBRARY_PATH={Path(python).parents[1]}/lib PYTHONPATH=/opt/edgettsd:/opt/site"
        script.write_text("\n".join(["#!/bin/sh", export, f'exec {python} /opt/{name}.py "$@"', ""]))
        script.chmod(0o755)
    there = root / "usr/lib/modules" / modules.name
    shutil.copytree(modules / "kernel/sound", there / "kernel/sound")
    for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        shutil.copy(modules / name, there)
    subprocess.run(["chroot", root, "depmod", modules.name], check=True, timeout=60)
    (root / "init").symlink_to("sbin/init")
    archive = work / "root.cpio"
    with archive.open("wb") as file:
        subprocess.run(
            ["bash", "-ec", "find . -print0 | cpio --null --quiet -o -H newc"],
            cwd=root,
            stdout=file,
            check=True,
            timeout=300,
        )
    return archive


def boot(work: Path, image: Path, archive: Path, seconds: float) -> tuple[str, str]:
    """Run the machine until it powers off; returns what it wrote to its two serial lines."""
    lines = [work / "console", work / "result"]
    command = [
        "qemu-system-x86_64",
        "-nodefaults",
        "-no-reboot",
        "-display",
        "none",
        "-m",
        "3072",
        "-smp",
        "4",
    ]
    command += ["-accel", "tcg,thread=single", "-cpu", "max"]
    command += [*(word for line in lines for word in ("-serial", f"file:{line}"))]
    command += ["-kernel", str(image), "-initrd", str(archive)]
    command += [
        "-append",
        "console=ttyS0 panic=-1 quiet systemd.show_status=0 systemd.mask=systemd-resolved.service",
    ]
    try:
        subprocess.run(command, stdin=subprocess.DEVNULL, check=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        print(f"the machine did not end within {seconds:g} s", file=sys.stderr)
    console, result = (line.read_text(errors="replace") for line in lines)
    return console, result


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="tools/check-vm", description="edgettsd in a virtual machine")
    parser.add_argument("--seconds", type=float, default=900.0, help="time limit of the machine (900)")
    parser.add_argument("--keep", action="store_true", help="keep the machine's files, and say where")
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="edgettsd-vm-", dir="/var/tmp"))
    try:
        image, modules = kernel(guest_root.CACHE / "vm-kernel")
        archive = root_archive(work, modules)
        begun = time.monotonic()
        console, result = boot(work, image, archive, options.seconds)
        print(result, end="")
        print(f"figure seconds in the machine {time.monotonic() - begun:.0f}, kernel {modules.name}")
        checks = [line for line in result.splitlines() if not line.startswith("figure ")]
        good = all(line.startswith("ok ") for line in checks) and "ok the script came to its end" in checks
        if not good:
            print(console, file=sys.stderr)
        return 0 if good else 1
    finally:
        if options.keep:
            print(work)
        else:
            shutil.rmtree(work)


if __name__ == "__main__":
    sys.exit(main())
