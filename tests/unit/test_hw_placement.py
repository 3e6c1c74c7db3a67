"""CPU sets on machines that no snapshot has, and what the configuration changes."""

from __future__ import annotations

import dataclasses

import pytest
from engine_rig import with_config
from hypothesis import given
from hypothesis import strategies as st

from edgettsd.config import Config
from edgettsd.hw import Cpu, Profile, adapt


def flat(count: int, smt: int = 1, **changes) -> Profile:
    """`count` cores of the same kind in one cluster; siblings are numbered after all cores."""
    cpus = tuple(Cpu(i, i % count, 0) for i in range(count * smt))
    profile = Profile("x86", "x86_64", "", ("fma",), cpus, tuple(range(count * smt)), ram_mb=8000)
    return dataclasses.replace(profile, **changes)


def big_little(little: int, big: int) -> Profile:
    cpus = [Cpu(i, i, 0, 400) for i in range(little)] + [
        Cpu(i, i, little) for i in range(little, little + big)
    ]
    ids = tuple(range(little + big))
    return Profile("arm64-biglittle", "aarch64", "", ("neon",), tuple(cpus), ids)


def sets(profile: Profile, **engine):
    plan = adapt(profile, with_config(**engine))
    return plan.cpus_generator, plan.cpus_decoder, plan.cpus_playout


@pytest.mark.parametrize(
    "count, expected",
    [
        (1, ((0,), (0,), (0,))),
        (2, ((0, 1), (0, 1), (0, 1))),
        (3, ((0, 1), (2,), (0, 1, 2))),
        (4, ((0, 1), (2, 3), (0, 1, 2, 3))),
        (5, ((1, 2), (3, 4), (0,))),
        (8, ((1, 2, 3, 4), (5, 6, 7), (0,))),
        (16, ((1, 2, 3, 4), (5, 6, 7, 8), (0, 9, 10, 11, 12, 13, 14, 15))),
    ],
)
def test_flat_machines(count, expected):
    assert sets(flat(count)) == expected


@pytest.mark.parametrize(
    "little, big, expected",
    [
        (4, 4, ((4, 5), (6, 7), (0, 1, 2, 3))),
        (4, 2, ((4, 5), (1, 2, 3), (0,))),
        (6, 2, ((6, 7), (2, 3, 4, 5), (0, 1))),
        (1, 1, ((1,), (0,), (0,))),
    ],
)
def test_big_little(little, big, expected):
    assert sets(big_little(little, big)) == expected


def test_a_cluster_is_not_cut_in_two_when_it_can_be_helped():
    cpus = tuple(Cpu(i, i, 0 if i < 4 else 4) for i in range(8))
    profile = dataclasses.replace(flat(8), cpus=cpus)
    # With CPU 0 free, three and four fit the clusters; the odd core goes to the decoder for once.
    assert sets(profile) == ((1, 2, 3), (4, 5, 6, 7), (0,))


def test_siblings_are_no_cores():
    assert sets(flat(2, smt=2)) == ((0, 1), (0, 1), (2, 3))
    plan = adapt(flat(2, smt=2), with_config(cpus_generator=(0, 2)))
    assert (plan.threads_generator, plan.cpus_decoder) == (1, (1,))
    only_siblings = flat(2, smt=2, allowed=(2, 3))
    assert sets(only_siblings) == ((2, 3), (2, 3), (2, 3))


def test_isolated_cpus_play_and_do_not_compute():
    assert sets(flat(4, isolated=(3,))) == ((0, 1), (2,), (3,))
    only = flat(4, isolated=(2, 3), allowed=(2, 3))
    assert sets(only) == ((2,), (3,), (2, 3))
    plan = adapt(flat(4, isolated=(2, 3)), with_config(cpus_generator=(2, 3)))
    # Threads would all stay on the first of them.
    assert plan.threads_generator == 1


def test_one_memory_node():
    cpus = tuple(Cpu(i, i, 4 * (i // 4), node=i // 4) for i in range(8))
    profile = dataclasses.replace(flat(8), cpus=cpus, allowed=(1, 2, 3, 4, 5, 6, 7))
    assert sets(profile) == ((4, 5), (6, 7), (4, 5, 6, 7))


def test_the_configuration_wins_and_the_rest_makes_room():
    assert sets(flat(4), cpus_generator=(2, 3)) == ((2, 3), (0, 1), (0, 1, 2, 3))
    assert sets(flat(4), cpus_decoder=(0,)) == ((1, 2, 3), (0,), (0, 1, 2, 3))
    assert sets(flat(4), cpus_generator=(0,), cpus_decoder=(1,)) == ((0,), (1,), (2, 3))
    assert sets(flat(4), cpus_playout=(3,))[2] == (3,)
    assert sets(flat(2), cpus_generator=(0, 1)) == ((0, 1), (0, 1), (0, 1))
    plan = adapt(
        flat(4), with_config(cpus_generator=(2, 3), threads_decoder=1, schedule="fixed", chunks=(4,))
    )
    assert {d.name for d in plan.decisions if d.origin == "config"} == {
        "cpus_generator",
        "threads_decoder",
        "schedule",
        "chunks",
    }
    assert (plan.schedule, plan.chunks, plan.origin("cpus_decoder")) == ("fixed", (4,), "machine")


def test_configured_threads_have_room():
    assert sets(flat(4), threads_generator=3) == ((0, 1, 2), (3,), (0, 1, 2, 3))
    assert sets(flat(4), threads_generator=3, threads_decoder=1)[:2] == ((0, 1, 2), (3,))
    # Two of each on two CPUs: sharing both is far better than two on one.
    assert sets(flat(2), threads_generator=2, threads_decoder=2) == ((0, 1), (0, 1), (0, 1))
    plan = adapt(flat(2), with_config(threads_generator=3, cpus_generator=(0,)))
    assert plan.threads_generator == 3
    reason = next(d.reason for d in plan.decisions if d.name == "threads_generator")
    assert "more than its 1 CPUs" in reason


def test_eight_bit_weights_where_memory_is_fast():
    assert adapt(flat(8), Config()).precision_talker == "q8_0"
    assert adapt(flat(4, smt=2), Config()).precision_talker == "q4_0"


@given(
    cores=st.integers(1, 24),
    smt=st.integers(1, 2),
    cluster=st.integers(1, 8),
    share=st.integers(0, 24),
    data=st.data(),
)
def test_rules_that_always_hold(cores, smt, cluster, share, data):
    cpus = tuple(
        Cpu(i, i % cores, i % cores // cluster * cluster, 400 if i % cores < share else 1024)
        for i in range(cores * smt)
    )
    ids = st.lists(st.sampled_from(range(len(cpus))), unique=True)
    allowed = tuple(sorted(data.draw(ids))) or (0,)
    isolated = tuple(sorted(data.draw(ids)))
    profile = Profile("other", "x", "", (), cpus, allowed, isolated)
    threads = data.draw(st.tuples(st.integers(0, 4), st.integers(0, 4)))
    plan = adapt(profile, with_config(threads_generator=threads[0], threads_decoder=threads[1]))
    for chosen in (plan.cpus_generator, plan.cpus_decoder, plan.cpus_playout, plan.cpus_loop):
        assert chosen
        assert set(chosen) <= set(allowed)
        assert list(chosen) == sorted(set(chosen))
    core_of = {cpu.id: cpu.core for cpu in cpus}
    usable = {core_of[c] for c in allowed if c not in isolated} or {core_of[c] for c in allowed}
    for wish, count, chosen in (
        (threads[0], plan.threads_generator, plan.cpus_generator),
        (threads[1], plan.threads_decoder, plan.cpus_decoder),
    ):
        assert count == wish or 1 <= count <= len({core_of[c] for c in chosen}) <= 4
    # Two cores are shared unless threads are wished.
    apart = len(usable) > (1 if any(threads) else 2)
    if apart and sum(threads) <= len(usable) and not set(allowed) <= set(isolated):
        assert not set(plan.cpus_generator) & set(plan.cpus_decoder)
