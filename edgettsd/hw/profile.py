"""What is known of a machine, as frozen data that JSON can carry; foreign JSON is checked field by field."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_type_hints

MachineClass = Literal["jetson", "cuda", "arm64-biglittle", "arm64", "x86", "other"]
Gpu = Literal["none", "cuda", "tegra"]

# Below this share of the fastest core's capacity a core counts as a little one.
BIG_SHARE = 0.75


class ProfileError(Exception):
    """A profile cannot be used; the message names source, field, value and what is allowed."""


def _number(low: int, high: int, default: int | None = None) -> Any:
    """An integer field with inclusive bounds."""
    rules = {"low": low, "high": high}
    return field(metadata=rules) if default is None else field(default=default, metadata=rules)


@dataclass(frozen=True, slots=True)
class Cpu:
    """One logical CPU that is online."""

    id: int = _number(0, 8191)
    # Lowest CPU number of the physical core: SMT siblings share it.
    core: int = _number(0, 8191)
    # Lowest CPU number of the group that shares a last-level cache or cluster.
    cluster: int = _number(0, 8191)
    # Performance relative to the fastest CPU of the machine, which has 1024.
    capacity: int = _number(1, 1024, 1024)
    # Highest clock in MHz, 0 when unknown.
    max_mhz: int = _number(0, 20_000, 0)
    node: int = _number(0, 1023, 0)
    # "cortex-a76" and the like; empty when unknown or of no interest.
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Zone:
    """A thermal zone; `trip_c` is the temperature from which the machine slows down, 0: unknown."""

    name: str
    type: str
    trip_c: int = _number(0, 200, 0)


@dataclass(frozen=True, slots=True)
class Profile:
    """A machine. CPU lists are ascending."""

    machine: MachineClass
    # As uname says: aarch64, x86_64.
    arch: str
    # The device tree's or the firmware's name of the board.
    model: str
    # neon, fp16, dotprod, i8mm, bf16, sve, sve2; avx2, fma, avx512, avx512-vnni, avx-vnni, amx-int8.
    isa: tuple[str, ...]
    cpus: tuple[Cpu, ...]
    # CPUs this process may use: online, within its affinity and its cpuset.
    allowed: tuple[int, ...]
    # CPUs outside the scheduler's balancing (isolcpus=).
    isolated: tuple[int, ...] = ()
    ram_mb: int = _number(1, 1 << 30, 1024)
    # The control group's memory limit in MB, 0 for none.
    memory_limit_mb: int = _number(0, 1 << 30, 0)
    gpu: Gpu = "none"
    vulkan: bool = False
    opencl: bool = False
    # Only an override names an NPU, because there is no common way to find one.
    npu: str = ""
    zones: tuple[Zone, ...] = ()

    def __post_init__(self) -> None:
        ids = [cpu.id for cpu in self.cpus]
        if not ids:
            raise ProfileError("cpus = []: must name at least one CPU")
        if ids != sorted(set(ids)):
            raise ProfileError(f"cpus: ids are {ids}: must be ascending, each once")
        for name in ("allowed", "isolated"):
            given = getattr(self, name)
            if list(given) != sorted(set(given)) or not set(given) <= set(ids):
                raise ProfileError(f"{name} = {list(given)}: must be ascending ids of cpus, which are {ids}")
        if not self.allowed:
            raise ProfileError("allowed = []: must name at least one CPU")
        for cpu in self.cpus:
            if cpu.core > cpu.id or cpu.core not in ids:
                raise ProfileError(
                    f"cpus: CPU {cpu.id} has core = {cpu.core}: must be the lowest id of its core"
                )

    def cpu(self, number: int) -> Cpu:
        """The CPU with this number; raises KeyError."""
        for cpu in self.cpus:
            if cpu.id == number:
                return cpu
        raise KeyError(number)

    def big(self) -> tuple[int, ...]:
        """CPUs of the fast cluster or clusters; on a flat machine all."""
        most = max(cpu.capacity for cpu in self.cpus)
        return tuple(cpu.id for cpu in self.cpus if cpu.capacity >= BIG_SHARE * most)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; `from_dict` reads it back to an equal profile."""
        value: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return value

    @classmethod
    def from_dict(cls, value: object, origin: str, base: Profile | None = None) -> Profile:
        """A profile from plain data; keys that are missing are taken from `base` when there is one.

        Given CPUs stand for a whole machine: allowed and isolated ones and zones then come from `value` only.
        Raises ProfileError with `origin`, field, value and what is allowed.
        """
        table = _table(cls, value, origin)
        merged = {f.name: getattr(base, f.name) for f in dataclasses.fields(cls)} if base is not None else {}
        if "cpus" in table:
            for name in ("allowed", "isolated", "zones"):
                merged.pop(name, None)
        merged |= _checked_fields(cls, table, origin)
        if "cpus" in table and "allowed" not in table:
            merged["allowed"] = tuple(cpu.id for cpu in merged["cpus"])
        _require(cls, merged, origin)
        try:
            return cls(**merged)
        except ProfileError as error:
            raise ProfileError(f"{origin}: {error}") from None


def _table(kind: Any, value: object, where: str) -> Mapping[str, Any]:
    """`value` as an object that has only keys of the dataclass `kind`."""
    if not isinstance(value, Mapping):
        raise ProfileError(f"{where} = {value!r}: must be an object")
    names = [f.name for f in dataclasses.fields(kind)]
    for name in value:
        if name not in names:
            raise ProfileError(f"{where}: unknown field {name!r}; allowed: {', '.join(names)}")
    return value


def _require(kind: Any, given: Mapping[str, Any], where: str) -> None:
    for f in dataclasses.fields(kind):
        if f.default is dataclasses.MISSING and f.name not in given:
            raise ProfileError(f"{where}: field {f.name!r} is missing")


def _checked_fields(kind: Any, table: Mapping[str, Any], where: str) -> dict[str, Any]:
    types = get_type_hints(kind)
    rules = {f.name: f.metadata for f in dataclasses.fields(kind)}
    return {
        name: _checked(types[name], rules[name], value, f"{where}: {name}") for name, value in table.items()
    }


def _checked(kind: Any, rules: Mapping[str, Any], value: object, where: str) -> Any:
    """`value` in the type `kind`; raises ProfileError."""
    if dataclasses.is_dataclass(kind):
        table = _table(kind, value, where)
        _require(kind, table, where)
        return kind(**_checked_fields(kind, table, where))  # type: ignore[operator]
    if kind is bool:
        if not isinstance(value, bool):
            raise ProfileError(f"{where} = {value!r}: must be true or false")
        return value
    if kind is int:
        low, high = rules.get("low", 0), rules.get("high", 8191)
        if type(value) is not int or not low <= value <= high:
            raise ProfileError(f"{where} = {value!r}: must be an integer from {low} to {high}")
        return value
    if kind is str:
        if not isinstance(value, str) or len(value) > 200 or not value.isprintable():
            raise ProfileError(f"{where} = {value!r}: must be a string of at most 200 printable characters")
        return value
    choices = get_args(kind)
    if getattr(kind, "__origin__", None) is tuple:
        if not isinstance(value, list):
            raise ProfileError(f"{where} = {value!r}: must be a list")
        return tuple(_checked(choices[0], rules, item, f"{where}[{i}]") for i, item in enumerate(value))
    if value not in choices:
        raise ProfileError(f"{where} = {value!r}: must be one of {', '.join(map(repr, choices))}")
    return value
