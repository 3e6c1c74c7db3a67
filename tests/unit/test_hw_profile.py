"""Profiles from JSON: overrides, and refusals that name field, value and what is allowed."""

from __future__ import annotations

import copy
import json

import pytest
from hw_boards import board, write

from edgettsd.hw import Profile, ProfileError, load_profile

GOOD = {
    "machine": "x86",
    "arch": "x86_64",
    "model": "",
    "isa": ["fma"],
    "cpus": [{"id": 0, "core": 0, "cluster": 0}, {"id": 1, "core": 1, "cluster": 0}],
    "allowed": [0, 1],
}


def test_defaults():
    profile = Profile.from_dict(GOOD, "file")
    assert (profile.cpus[1].capacity, profile.zones, profile.npu) == (1024, (), "")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"machine": "arm"}, "file: machine = 'arm': must be one of 'jetson', 'cuda', 'arm64-biglittle'"),
        ({"colour": 1}, "file: unknown field 'colour'; allowed: machine, arch"),
        ({"ram_mb": 0}, "file: ram_mb = 0: must be an integer from 1"),
        ({"ram_mb": True}, "file: ram_mb = True: must be an integer"),
        ({"ram_mb": "8"}, "file: ram_mb = '8': must be an integer"),
        ({"vulkan": 1}, "file: vulkan = 1: must be true or false"),
        ({"model": "a\nb"}, "file: model = 'a\\nb': must be a string"),
        ({"isa": "fma"}, "file: isa = 'fma': must be a list"),
        ({"allowed": [0, 2]}, "file: allowed = [0, 2]: must be ascending ids of cpus, which are [0, 1]"),
        ({"allowed": [1, 0]}, "file: allowed = [1, 0]: must be ascending"),
        ({"allowed": []}, "file: allowed = []: must name at least one CPU"),
        ({"isolated": [5]}, "file: isolated = [5]"),
        ({"cpus": []}, "file: cpus = []: must name at least one CPU"),
        ({"cpus": [3]}, "file: cpus[0] = 3: must be an object"),
        ({"cpus": [{"id": 0, "core": 0}]}, "file: cpus[0]: field 'cluster' is missing"),
        ({"cpus": [GOOD["cpus"][1]]}, None),
        ({"cpus": [GOOD["cpus"][1], GOOD["cpus"][0]]}, "file: cpus: ids are [1, 0]: must be ascending"),
        (
            {"cpus": [{"id": 0, "core": 1, "cluster": 0}], "allowed": [0]},
            "file: cpus: CPU 0 has core = 1: must be the lowest id of its core",
        ),
        ({"cpus": [{"id": 0, "core": 0, "cluster": 0, "capacity": 2000}]}, "cpus[0]: capacity = 2000"),
        ({"zones": [{"name": "z"}]}, "file: zones[0]: field 'type' is missing"),
        ({"zones": [{"name": "z", "type": "t", "trip_c": -1}]}, "file: zones[0]: trip_c = -1"),
    ],
)
def test_bad_values_are_named(change, message):
    value = copy.deepcopy(GOOD) | change
    if message is None:
        value["allowed"] = [1]
        assert Profile.from_dict(value, "file").allowed == (1,)
        return
    with pytest.raises(ProfileError) as caught:
        Profile.from_dict(value, "file")
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["machine", "arch", "model", "isa", "cpus", "allowed"])
def test_a_missing_field_is_named(name):
    value = {key: item for key, item in GOOD.items() if key != name}
    if name == "allowed":
        assert Profile.from_dict(value, "file").allowed == (0, 1)
        return
    with pytest.raises(ProfileError, match=f"file: field '{name}' is missing"):
        Profile.from_dict(value, "file")


@pytest.mark.parametrize("value", [None, [], "x", 3])
def test_not_an_object(value):
    with pytest.raises(ProfileError, match="must be an object"):
        Profile.from_dict(value, "file")


def test_an_override_replaces_fields(tmp_path):
    found = board("pi5", tmp_path / "root")
    override = tmp_path / "profile.json"
    override.write_text(json.dumps({"npu": "hailo-8", "memory_limit_mb": 2000}))
    environment = {"EDGETTSD_HW_PROFILE": str(override)}
    profile = load_profile(tmp_path / "root", environment, range(4), "aarch64")
    assert (profile.npu, profile.memory_limit_mb) == ("hailo-8", 2000)
    assert (profile.cpus, profile.model) == (found.cpus, found.model)


def test_an_override_of_the_cpus_is_another_machine(tmp_path):
    board("pi5", tmp_path / "root")
    override = tmp_path / "profile.json"
    override.write_text(json.dumps({"cpus": [{"id": 9, "core": 9, "cluster": 9}]}))
    environment = {"EDGETTSD_HW_PROFILE": str(override)}
    profile = load_profile(tmp_path / "root", environment, range(4), "aarch64")
    assert (profile.allowed, profile.isolated, profile.zones) == ((9,), (), ())


@pytest.mark.parametrize(
    "text, message", [("{", "not valid JSON"), ("[" * 100_000, "not valid JSON"), ("[]", "object")]
)
def test_an_override_that_is_no_json(tmp_path, text, message):
    write(tmp_path, {"p.json": text})
    with pytest.raises(ProfileError, match=rf"EDGETTSD_HW_PROFILE=.*{message}"):
        load_profile(tmp_path, {"EDGETTSD_HW_PROFILE": str(tmp_path / "p.json")}, [0], "x86_64")


def test_an_override_that_is_not_there(tmp_path):
    with pytest.raises(ProfileError, match="No such file"):
        load_profile(tmp_path, {"EDGETTSD_HW_PROFILE": str(tmp_path / "none")}, [0], "x86_64")
