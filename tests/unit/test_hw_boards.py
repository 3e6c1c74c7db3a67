"""What the probe finds on real boards' files, and what is decided for them."""

from __future__ import annotations

import dataclasses
import json

import pytest
from engine_rig import with_config
from hw_boards import BOARDS, board

from edgettsd.config import Config
from edgettsd.hw import Decision, Profile, adapt

# Board -> generator, decoder, playout and loop CPUs, as the reasons in edgettsd/hw/placement.py say.
SETS = {
    "pi4": ((0, 1), (2, 3), (0, 1, 2, 3)),
    "pi5": ((0, 1), (2, 3), (0, 1, 2, 3)),
    "imx8mp": ((0, 1), (2, 3), (0, 1, 2, 3)),
    "rk3588": ((4, 5), (6, 7), (0, 1, 2, 3)),
    "orin-nano": ((1, 2, 3), (4, 5), (0,)),
    "agx-orin": ((4, 5, 6, 7), (8, 9, 10, 11), (0, 1, 2, 3)),
    "x86-smt": ((0, 1), (2, 3), (4, 5, 6, 7)),
    "one-core": ((0,), (0,), (0,)),
}
MACHINES = {
    "pi4": "arm64",
    "pi5": "arm64",
    "imx8mp": "arm64",
    "rk3588": "arm64-biglittle",
    "orin-nano": "jetson",
    "agx-orin": "jetson",
    "x86-smt": "x86",
    "one-core": "x86",
}
ISA = {
    "pi4": ("neon",),
    "pi5": ("neon", "fp16", "dotprod"),
    "rk3588": ("neon", "fp16", "dotprod"),
    "x86-smt": ("avx2", "fma", "avx512", "avx512-vnni"),
    "one-core": (),
}


def test_every_snapshot_is_tested():
    assert set(BOARDS) == set(SETS) == set(MACHINES)


@pytest.mark.parametrize("name", BOARDS)
def test_decisions(name, tmp_path):
    profile = board(name, tmp_path)
    assert profile.machine == MACHINES[name]
    plan = adapt(profile, Config())
    assert (plan.cpus_generator, plan.cpus_decoder, plan.cpus_playout) == SETS[name]
    assert plan.cpus_loop == plan.cpus_playout
    assert plan.threads_generator == len(plan.cpus_generator)
    assert plan.threads_decoder == len(plan.cpus_decoder)
    assert all(decision.reason for decision in plan.decisions)
    assert {decision.origin for decision in plan.decisions} == {"machine", "model"}


@pytest.mark.parametrize("name", BOARDS)
def test_profiles_survive_json(name, tmp_path):
    profile = board(name, tmp_path)
    assert Profile.from_dict(json.loads(json.dumps(profile.to_dict())), "file") == profile


@pytest.mark.parametrize("name", ISA)
def test_instruction_sets(name, tmp_path):
    assert board(name, tmp_path).isa == ISA[name]


def test_precision_follows_from_the_cores(tmp_path):
    int8 = {
        name for name in BOARDS if adapt(board(name, tmp_path / name), Config()).precision_decoder == "int8"
    }
    # Narrow cores (A53, A72), or two of 1.5 GHz.
    assert int8 == {"pi4", "imx8mp", "orin-nano"}
    assert adapt(board("pi5", tmp_path / "again"), Config()).precision_talker == "q4_0"


def test_a_slow_board_is_given_more_time(tmp_path):
    assert adapt(board("pi4", tmp_path / "a"), Config()).stall_seconds == 60
    assert adapt(board("agx-orin", tmp_path / "b"), Config()).stall_seconds == 30


def test_memory(tmp_path):
    one = board("one-core", tmp_path / "a")
    # The limit is that of a control group further up.
    assert (one.ram_mb, one.memory_limit_mb) == (1982, 1024)
    plan = adapt(one, Config())
    assert (plan.memory_mb, plan.model_size) == (1024 * 9 // 10, "0.6b")
    assert adapt(board("x86-smt", tmp_path / "b"), Config()).model_size == "1.7b"
    small = board("pi4", tmp_path / "c", **{"proc/meminfo": "MemTotal: 1000000 kB\n"})
    assert adapt(small, Config()).model_size == "built-in"


def test_thermal_zones(tmp_path):
    zones = {zone.type: zone.trip_c for zone in board("rk3588", tmp_path / "a").zones}
    assert zones == {
        "package-thermal": 105,
        "bigcore0-thermal": 85,
        "bigcore2-thermal": 85,
        "littlecore-thermal": 85,
    }
    # Trip points of a fan do not slow anything down.
    assert [zone.trip_c for zone in board("pi5", tmp_path / "b").zones] == [100]


def test_graphics(tmp_path):
    rk = board("rk3588", tmp_path / "a")
    assert (rk.gpu, rk.vulkan, rk.opencl) == ("none", False, True)
    pi = board("pi5", tmp_path / "b")
    assert (pi.vulkan, pi.opencl) == (True, False)
    # Unified memory: not a card of its own, although the driver makes the same device.
    assert board("orin-nano", tmp_path / "c").gpu == "tegra"
    card = board("x86-smt", tmp_path / "d", **{"proc/driver/nvidia/gpus/0000:01:00.0/information": "x"})
    assert (card.gpu, card.machine) == ("cuda", "cuda")
    without = tmp_path / "e"
    board("pi5", without)
    for name in ("card0", "renderD128"):
        (without / "dev/dri" / name).unlink()
    (without / "dev/dri").rmdir()
    assert not board_again("pi5", without).vulkan


def board_again(name, root):
    """Probe a tree that was changed after it was written."""
    from hw_boards import DATA

    from edgettsd.hw import probe

    snapshot = json.loads((DATA / f"{name}.json").read_text())
    return probe(root, snapshot["affinity"], snapshot["arch"])


def decision(profile: Profile, name: str, **engine: object) -> Decision:
    (found,) = (d for d in adapt(profile, with_config(**engine)).decisions if d.name == name)
    return found


def test_devices_are_explained(tmp_path):
    """What is there and not used is said too, with what would use it."""
    orin = board("orin-nano", tmp_path)
    assert "whose memory is the CPUs' too" in decision(orin, "n_gpu_layers").reason
    assert decision(orin, "n_gpu_layers", n_gpu_layers=99) == Decision(
        "n_gpu_layers", 99, "config", "[engine] n_gpu_layers in the configuration"
    )
    bare = dataclasses.replace(orin, gpu="none", vulkan=False, opencl=False)
    assert decision(bare, "n_gpu_layers").value == 0
    assert decision(bare, "decoder_accelerator").reason.startswith("neither a Vulkan nor an OpenCL driver")
    mali = dataclasses.replace(bare, opencl=True)
    assert (
        'decoder_accelerator = "auto" tries the GPU (opencl)' in decision(mali, "decoder_accelerator").reason
    )
    assert decision(mali, "decoder_accelerator", decoder_accelerator="auto").value == "auto"
    assert "npu" not in {d.name for d in adapt(mali, with_config()).decisions}
    hailo = dataclasses.replace(mali, npu="hailo-8")
    assert decision(hailo, "npu") == Decision(
        "npu", "unused", "machine", "no operator of the models runs on hailo-8"
    )
