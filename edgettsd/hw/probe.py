"""Finding out what the machine has, from /proc, /sys, the device tree and the libraries that lie on it.

Every path is below a root folder, so that the files of other boards can be given. Nothing here starts a
program, loads a library or writes; a file that is missing means the plain answer, never an error.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgettsd.hw._files import Tree
from edgettsd.hw.profile import BIG_SHARE, Cpu, Gpu, MachineClass, Profile, ProfileError, Zone
from edgettsd.hw.threads import PROCESS_CPUS

OVERRIDE = "EDGETTSD_HW_PROFILE"

_CPU = "sys/devices/system/cpu"
# Flags of /proc/cpuinfo -> our names.
_ISA = {
    "asimd": "neon",
    "asimdhp": "fp16",
    "asimddp": "dotprod",
    "i8mm": "i8mm",
    "bf16": "bf16",
    "sve": "sve",
    "sve2": "sve2",
    "avx2": "avx2",
    "fma": "fma",
    "avx512f": "avx512",
    "avx512_vnni": "avx512-vnni",
    "avx_vnni": "avx-vnni",
    "amx_int8": "amx-int8",
}
# (CPU implementer, CPU part) of /proc/cpuinfo -> name; from Arm's and NVIDIA's manuals.
_PARTS = {
    (0x41, 0xD03): "cortex-a53",
    (0x41, 0xD04): "cortex-a35",
    (0x41, 0xD05): "cortex-a55",
    (0x41, 0xD07): "cortex-a57",
    (0x41, 0xD08): "cortex-a72",
    (0x41, 0xD09): "cortex-a73",
    (0x41, 0xD0A): "cortex-a75",
    (0x41, 0xD0B): "cortex-a76",
    (0x41, 0xD0C): "neoverse-n1",
    (0x41, 0xD0D): "cortex-a77",
    (0x41, 0xD40): "neoverse-v1",
    (0x41, 0xD41): "cortex-a78",
    (0x41, 0xD42): "cortex-a78ae",
    (0x41, 0xD44): "cortex-x1",
    (0x41, 0xD46): "cortex-a510",
    (0x41, 0xD47): "cortex-a710",
    (0x41, 0xD49): "neoverse-n2",
    (0x41, 0xD4D): "cortex-a715",
    (0x41, 0xD80): "cortex-a520",
    (0x41, 0xD81): "cortex-a720",
    (0x4E, 0x004): "carmel",
}
_LIBRARY_FOLDERS = (
    "usr/lib",
    "usr/lib64",
    "usr/local/lib",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib/x86_64-linux-gnu",
)
# An Intel efficiency core against a performance core, where the kernel gives no capacities.
_ATOM_CAPACITY = 600
# Degrees below the critical trip point of a zone that has no other.
BELOW_CRITICAL = 10
# A v1 memory group without a limit holds a number near 2^63.
_NO_LIMIT = 1 << 60


def load_profile(
    root: Path = Path("/"),
    environment: Mapping[str, str] = os.environ,
    affinity: Sequence[int] | None = None,
    arch: str = "",
) -> Profile:
    """The machine's profile, with the fields of the file that EDGETTSD_HW_PROFILE names over the probed ones.

    Raises ProfileError when that file cannot be used.
    """
    found = probe(root, affinity, arch)
    path = environment.get(OVERRIDE, "")
    if not path:
        return found
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ProfileError(f"{OVERRIDE}={path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"{OVERRIDE}={path}: not valid JSON: {error}") from error
    return Profile.from_dict(value, f"{OVERRIDE}={path}", base=found)


def probe(root: Path = Path("/"), affinity: Sequence[int] | None = None, arch: str = "") -> Profile:
    """Look at the machine below `root`.

    `affinity` are the CPUs that this process may use (by default those it was started with), `arch` the
    machine's name as uname gives it.
    """
    tree = Tree(root)
    arch = arch or platform.machine()
    given = tuple(sorted(PROCESS_CPUS if affinity is None else affinity))
    cpus = _cpus(tree, given)
    online = {cpu.id for cpu in cpus}
    group = _cpuset(tree)
    allowed = online & set(given) & (set(group) or online)
    gpu = _gpu(tree)
    return Profile(
        machine=_machine(arch, gpu, cpus),
        arch=arch,
        model=_model(tree),
        isa=_isa(tree),
        cpus=cpus,
        # A cpuset and an affinity that contradict each other are the kernel's to sort out.
        allowed=tuple(sorted(allowed or online)),
        isolated=tuple(c for c in tree.cpus(f"{_CPU}/isolated") if c in online),
        ram_mb=_ram_mb(tree),
        memory_limit_mb=_memory_limit_mb(tree),
        gpu=gpu,
        vulkan=bool(_libraries(tree, "libvulkan.so*")) and tree.exists("dev/dri"),
        opencl=bool(_libraries(tree, "libOpenCL.so*") or _libraries(tree, "libmali*.so*")),
        zones=tuple(_zones(tree)),
    )


def _cpus(tree: Tree, affinity: Sequence[int]) -> tuple[Cpu, ...]:
    online = tree.cpus(f"{_CPU}/online") or tuple(affinity) or (0,)
    kinds = _kinds(tree)
    clocks = {cpu: _max_mhz(tree, cpu) for cpu in online}
    capacities = _capacities(tree, online, clocks)
    nodes = _nodes(tree)
    cpus = []
    for number in online:
        siblings = [c for c in tree.cpus(f"{_CPU}/cpu{number}/topology/thread_siblings_list") if c in online]
        cpus.append(
            Cpu(
                id=number,
                core=min(siblings, default=number) if number in siblings else number,
                cluster=_cluster(tree, number, siblings or [number], online),
                capacity=capacities[number],
                max_mhz=clocks[number],
                node=nodes.get(number, 0),
                kind=kinds.get(number, ""),
            )
        )
    return tuple(cpus)


def _cluster(tree: Tree, number: int, siblings: Sequence[int], online: Sequence[int]) -> int:
    """First CPU of the smallest group beyond the core itself: cluster, shared last-level cache, package."""
    folder = f"{_CPU}/cpu{number}"
    for path in (
        f"{folder}/topology/cluster_cpus_list",
        f"{folder}/cache/index3/shared_cpu_list",
        f"{folder}/cache/index2/shared_cpu_list",
        f"{folder}/topology/package_cpus_list",
        f"{folder}/topology/core_siblings_list",
    ):
        group = [c for c in tree.cpus(path) if c in online]
        if number in group and len(group) > len(siblings):
            return min(group)
    return min(online)


def _max_mhz(tree: Tree, number: int) -> int:
    return tree.number(f"{_CPU}/cpu{number}/cpufreq/cpuinfo_max_freq") // 1000


def _capacities(tree: Tree, online: Sequence[int], clocks: Mapping[int, int]) -> dict[int, int]:
    """Relative performance, 1024 for the fastest: the kernel's numbers, core types, or the clocks."""
    raw = {cpu: tree.number(f"{_CPU}/cpu{cpu}/cpu_capacity") for cpu in online}
    if not all(raw.values()):
        atoms = set(tree.cpus("sys/devices/cpu_atom/cpus"))
        raw = {cpu: _ATOM_CAPACITY if cpu in atoms else 1024 for cpu in online}
        if not atoms and all(clocks.values()):
            raw = dict(clocks)
    most = max(raw.values())
    return {cpu: max(1, value * 1024 // most) for cpu, value in raw.items()}


def _nodes(tree: Tree) -> dict[int, int]:
    nodes = {}
    for name in tree.names("sys/devices/system/node", "node[0-9]*"):
        for cpu in tree.cpus(f"sys/devices/system/node/{name}/cpulist"):
            nodes[cpu] = int(name.removeprefix("node"))
    return nodes


def _blocks(tree: Tree) -> list[dict[str, str]]:
    """/proc/cpuinfo, one dictionary a CPU."""
    blocks = []
    for block in tree.text("proc/cpuinfo").split("\n\n"):
        pairs = (line.partition(":") for line in block.splitlines())
        fields = {key.strip(): value.strip() for key, _, value in pairs}
        if fields.get("processor", "").isdecimal():
            blocks.append(fields)
    return blocks


def _kinds(tree: Tree) -> dict[int, str]:
    kinds = {}
    for fields in _blocks(tree):
        try:
            part = int(fields.get("CPU implementer", "0"), 0), int(fields.get("CPU part", "0"), 0)
        except ValueError:
            continue
        kinds[int(fields["processor"])] = _PARTS.get(part, "")
    return kinds


def _isa(tree: Tree) -> tuple[str, ...]:
    """What every CPU can do: a thread may run on any of them."""
    flags = [set((b.get("Features") or b.get("flags") or "").split()) for b in _blocks(tree)]
    common = set.intersection(*flags) if flags else set()
    return tuple(name for flag, name in _ISA.items() if flag in common)


def _cpuset(tree: Tree) -> tuple[int, ...]:
    """CPUs of this process's control group, version 2 or 1; empty when there is no such group."""
    for line in tree.text("proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        path = path.strip("/")
        if number == "0" and not controllers:
            folders = ["sys/fs/cgroup", "sys/fs/cgroup/unified"]
            file = "cpuset.cpus.effective"
        elif "cpuset" in controllers.split(","):
            folders = ["sys/fs/cgroup/cpuset"]
            file = "cpuset.effective_cpus"
        else:
            continue
        for folder in folders:
            # In a container the path is the host's and the group itself is the mounted root.
            for inner in (f"{folder}/{path}", folder):
                if cpus := tree.cpus(f"{inner}/{file}") or tree.cpus(f"{inner}/cpuset.cpus"):
                    return cpus
    return ()


def _memory_limit_mb(tree: Tree) -> int:
    """The least memory limit from this process's control group up to the root, in MB; 0 for none."""
    limits = []
    for line in tree.text("proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            folder, file = "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            folder, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        inner = Path(path.strip("/"))
        for level in (inner, *inner.parents):
            limit = tree.number(f"{folder}/{level}/{file}")
            if 0 < limit < _NO_LIMIT:
                limits.append(limit)
    return max(1, min(limits) >> 20) if limits else 0


def _ram_mb(tree: Tree) -> int:
    for line in tree.text("proc/meminfo").splitlines():
        key, _, value = line.partition(":")
        if key == "MemTotal" and value.split()[:1] and value.split()[0].isdecimal():
            return max(1, int(value.split()[0]) // 1024)
    return 1024


def _model(tree: Tree) -> str:
    name = (
        tree.text("proc/device-tree/model")
        or tree.text("sys/firmware/devicetree/base/model")
        or tree.text("sys/devices/virtual/dmi/id/product_name")
    )
    return "".join(filter(str.isprintable, name))[:200]


def _compatible(tree: Tree) -> list[str]:
    raw = tree.text("proc/device-tree/compatible") or tree.text("sys/firmware/devicetree/base/compatible")
    return raw.split("\0")


def _gpu(tree: Tree) -> Gpu:
    """Tegra shares its memory with the CPUs; a discrete card has the NVIDIA driver's /proc entry."""
    if any(name.startswith("nvidia,tegra") for name in _compatible(tree)):
        return "tegra"
    if tree.names("proc/driver/nvidia/gpus") or tree.exists("dev/nvidia0"):
        return "cuda"
    return "none"


def _machine(arch: str, gpu: Gpu, cpus: Sequence[Cpu]) -> MachineClass:
    if gpu == "tegra":
        return "jetson"
    if gpu == "cuda":
        return "cuda"
    if arch in ("aarch64", "arm64"):
        little = any(cpu.capacity < BIG_SHARE * 1024 for cpu in cpus)
        return "arm64-biglittle" if little else "arm64"
    return "x86" if arch in ("x86_64", "i686", "amd64") else "other"


def _libraries(tree: Tree, pattern: str) -> list[str]:
    return [name for folder in _LIBRARY_FOLDERS for name in tree.names(folder, pattern)]


def _zones(tree: Tree) -> list[Zone]:
    """Thermal zones, each with the temperature from which the machine slows down."""
    zones = []
    for name in tree.names("sys/class/thermal", "thermal_zone[0-9]*"):
        folder = f"sys/class/thermal/{name}"
        trips: dict[str, list[int]] = {}
        for file in tree.names(folder, "trip_point_*_type"):
            degrees = tree.number(f"{folder}/{file.removesuffix('type')}temp") // 1000
            if 0 < degrees <= 200:
                trips.setdefault(tree.text(f"{folder}/{file}"), []).append(degrees)
        slow = trips.get("passive", []) + trips.get("hot", [])
        # Firmware that has no passive trip point slows down by itself before the critical one.
        slow = slow or [max(1, degrees - BELOW_CRITICAL) for degrees in trips.get("critical", [])]
        zones.append(Zone(name, tree.text(f"{folder}/type")[:200], min(slow, default=0)))
    return zones
