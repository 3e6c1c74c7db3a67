"""Which modules the packages import, and in which of OpenEmbedded's packages these are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# In which of OpenEmbedded's packages of the standard library a module is (python3-manifest.json); the others
# that the daemon uses are in python3-core.
PACKAGE_OF = {
    "asyncio": "asyncio",
    "base64": "netclient",
    "concurrent": "asyncio",
    "ctypes": "ctypes",
    "fcntl": "fcntl",
    "hashlib": "crypt",
    "hmac": "netclient",
    "html": "html",
    "json": "json",
    "logging": "logging",
    "mmap": "mmap",
    "queue": "threading",
    "random": "math",
    "socket": "io",
    "statistics": "statistics",
    "tempfile": "io",
    "tomllib": "tomllib",
    "urllib": "netclient",
    "xml": "xml",
}
# What is in the gateway's package, or used by it alone.
GATEWAY = ("edgettsd/gateways/", "edgettsd/text/markdown.py")
CORE_MODULES = set(
    "__future__ abc argparse array ast atexit bisect codecs collections contextlib copy dataclasses enum"
    " errno fnmatch functools gc getopt glob grp heapq importlib inspect io ipaddress itertools locale math"
    " operator os pathlib platform posix pwd re select selectors shutil signal stat struct"
    " subprocess sys sysconfig textwrap threading time traceback types typing unicodedata warnings"
    " weakref".split()
)


def imported(gateway: bool) -> set[str]:
    """Top-level modules that the daemon's packages import, or the gateway's."""
    found = set()
    for package in ("edgettsd", "cython_kernels"):
        for path in (ROOT / package).rglob("*"):
            its = str(path.relative_to(ROOT)).startswith(GATEWAY)
            if path.suffix in (".py", ".pyx") and its is gateway:
                text = path.read_text(encoding="utf-8")
                found |= set(
                    re.findall(r"(?m)^\s*(?:import|from) ([a-z_]\w*)[\w.]*(?: import| as|,|$)", text)
                )
    return found - {"edgettsd", "cython_kernels", "libc"}
