"""The probe's sources one by one: CPU lists, control groups, topology, and machines that lack files."""

from __future__ import annotations

import os

import pytest
from hw_boards import board, write

from edgettsd.config import Config
from edgettsd.hw import adapt, probe

CPU = "sys/devices/system/cpu"


def machine(root, cpus, **files):
    return write(root, {f"{CPU}/online": cpus} | files)


def test_an_empty_machine_has_the_cpus_of_this_process(tmp_path):
    profile = probe(tmp_path, [0, 1], "riscv64")
    assert (profile.machine, profile.isa, profile.allowed) == ("other", (), (0, 1))
    assert [(cpu.core, cpu.capacity, cpu.max_mhz) for cpu in profile.cpus] == [(0, 1024, 0), (1, 1024, 0)]
    assert adapt(profile, Config()).threads_generator == 2


def test_this_machine():
    profile = probe()
    assert set(profile.allowed) <= os.sched_getaffinity(os.getpid())
    assert profile.ram_mb > 256
    assert set(adapt(profile, Config()).cpus_generator) <= set(profile.allowed)


def test_a_pinned_main_thread_does_not_shrink_the_machine():
    """The daemon pins its loop; a look at the hardware later must find what the first one found."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert probe().allowed == tuple(sorted(before))
    finally:
        os.sched_setaffinity(0, before)


def test_affinity_limits(tmp_path):
    machine(tmp_path, "0-3\n")
    assert probe(tmp_path, [1, 3], "x86_64").allowed == (1, 3)


@pytest.mark.parametrize(
    "group, file",
    [
        ("0::/a/b\n", "sys/fs/cgroup/a/b/cpuset.cpus.effective"),
        ("0::/a/b\n", "sys/fs/cgroup/cpuset.cpus.effective"),
        ("4:cpuset:/a\n0::/\n", "sys/fs/cgroup/cpuset/a/cpuset.effective_cpus"),
        ("4:cpuset:/elsewhere\n", "sys/fs/cgroup/cpuset/cpuset.cpus"),
    ],
)
def test_cpusets_of_both_versions(tmp_path, group, file):
    machine(tmp_path, "0-3\n", **{"proc/self/cgroup": group, file: "2-3\n"})
    assert probe(tmp_path, range(4), "x86_64").allowed == (2, 3)


def test_isolated_cpus_and_offline_ones(tmp_path):
    machine(tmp_path, "0-2,5\n", **{f"{CPU}/isolated": "2-3\n"})
    profile = probe(tmp_path, range(6), "x86_64")
    assert [cpu.id for cpu in profile.cpus] == [0, 1, 2, 5]
    assert profile.isolated == (2,)


def test_smt_siblings_share_a_core(tmp_path):
    profile = board("x86-smt", tmp_path)
    assert [cpu.core for cpu in profile.cpus] == [0, 1, 2, 3, 0, 1, 2, 3]
    # The groups of one core each say nothing; the last-level cache does.
    assert {cpu.cluster for cpu in profile.cpus} == {0}


def test_clusters(tmp_path):
    profile = board("rk3588", tmp_path)
    assert [cpu.cluster for cpu in profile.cpus] == [0, 0, 0, 0, 4, 4, 6, 6]
    assert profile.big() == (4, 5, 6, 7)
    assert [cpu.kind for cpu in profile.cpus] == ["cortex-a55"] * 4 + ["cortex-a76"] * 4


def test_capacities_from_the_clocks(tmp_path):
    files = {f"{CPU}/cpu{{0-1}}/cpufreq/cpuinfo_max_freq": "1000000\n"}
    files |= {f"{CPU}/cpu{{2-3}}/cpufreq/cpuinfo_max_freq": "2000000\n"}
    profile = probe(machine(tmp_path, "0-3\n", **files), range(4), "aarch64")
    assert [cpu.capacity for cpu in profile.cpus] == [512, 512, 1024, 1024]
    assert profile.machine == "arm64-biglittle"


def test_efficiency_cores_without_capacities(tmp_path):
    files = {"sys/devices/cpu_atom/cpus": "4-7\n", "sys/devices/cpu_core/cpus": "0-3\n"}
    files |= {f"{CPU}/cpu{{0-7}}/cpufreq/cpuinfo_max_freq": "4400000\n"}
    profile = probe(machine(tmp_path, "0-7\n", **files), range(8), "x86_64")
    assert profile.big() == (0, 1, 2, 3)


def test_memory_nodes(tmp_path):
    files = {f"sys/devices/system/node/node{n}/cpulist": f"{4 * n}-{4 * n + 3}\n" for n in (0, 1)}
    profile = probe(machine(tmp_path, "0-7\n", **files), range(8), "x86_64")
    assert [cpu.node for cpu in profile.cpus] == [0] * 4 + [1] * 4


def test_what_every_cpu_can_do(tmp_path):
    info = "processor : 0\nFeatures : asimd asimddp i8mm sve\n\nprocessor : 1\nFeatures : asimd asimddp\n"
    profile = probe(machine(tmp_path, "0-1\n", **{"proc/cpuinfo": info}), range(2), "aarch64")
    assert profile.isa == ("neon", "dotprod")


@pytest.mark.parametrize("text", ["", "x\n", "3-1\n", "0-99999999\n", "\0\0"])
def test_damaged_files_are_no_error(tmp_path, text):
    files = {f"{CPU}/{name}": text for name in ("online", "isolated", "cpu0/cpu_capacity")}
    files |= {"proc/cpuinfo": text, "proc/meminfo": f"MemTotal: {text}", "proc/self/cgroup": text}
    files |= {"sys/class/thermal/thermal_zone0/trip_point_0_type": "passive"}
    profile = probe(write(tmp_path, files), [0], "x86_64")
    assert profile.allowed == (0,)
    assert profile.zones[0].trip_c == 0
