"""Hundreds of bindings in flight, any of which fails, oversell no node and break no constraint between pods.

A pod is assumed on its node when it is decided on, so the next one is decided on with it, however many bindings are
between them. That is why the concurrency limit need not depend on the constraints between pods.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import cache, partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import Pod
from pyscheduler.config.load import loads
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.core import binding, scheduling_cycle
from pyscheduler.core.context import AssumedPod, Context
from pyscheduler.testing import Harness, PodBuilder, node, pod
from tests.properties.profiles import assert_caught, quick

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES, NODES, PODS_PER_NODE = 3, 24, 8
SPREAD, APART, PLAIN = "spread", "apart", "plain"
_BACKOFF = 11.0
_ROUNDS = 60
Script = tuple[list[str], int, int]
"""The constraint of each pod, a seed for outcomes and their order, and the percentage of bindings that fail."""
SCRIPTS = st.tuples(
    st.lists(st.sampled_from([SPREAD, SPREAD, APART, PLAIN]), min_size=1, max_size=150),
    st.integers(0, 2**16),
    st.sampled_from([0, 10, 50, 90]),
)


@cache
def _config() -> LoadedConfig:
    return loads("{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration}")


def _pod(name: str, constraint: str) -> PodBuilder:
    built = pod(name).label("app", constraint).requests(cpu="500m")
    own = {"matchLabels": {"app": constraint}}
    if constraint == SPREAD:
        evenly = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": own}
        return built.spec(topologySpreadConstraints=[evenly])
    return built.pod_anti_affinity({"topologyKey": HOSTNAME, "labelSelector": own}) if constraint == APART else built


def _refused(refusal: str, _pod: Pod, _node: str) -> str:
    return refusal


class Cluster:
    """A scheduler with bindings that stay in flight until the test ends them."""

    def __init__(self, constraints: list[str], seed: int) -> None:
        self.harness = Harness(_config(), seed=seed)
        self.harness.complete_bindings = False
        room = {"cpu": f"{PODS_PER_NODE // 2}"}
        for i in range(NODES):
            self.harness.add(node(f"n{i}", **room).label(ZONE, f"z{i % ZONES}").label(HOSTNAME, f"n{i}"))
        apart = iter(range(NODES))  # more than there are nodes could not all be placed
        self.constraints = {
            f"p{i}": constraint
            for i, constraint in enumerate(constraints)
            if constraint != APART or next(apart, None) is not None
        }
        for name, constraint in self.constraints.items():
            self.harness.add(_pod(name, constraint))
        self.harness.run()

    def answer(self, chance: random.Random, failing: int) -> None:
        """Answer all bindings in flight, in any order; so many of a hundred fail."""
        names = [bind.pod.name for bind in self.harness.pending_bindings.values()]
        chance.shuffle(names)
        for name in names:
            refusal = "connection reset" if chance.randrange(100) < failing else ""
            self.harness.binding_error = partial(_refused, refusal)
            self.harness.finish_binding(name)
            if chance.random() < 0.2:
                self.harness.run()
            self.check()
        self.harness.advance(_BACKOFF)

    def check(self) -> None:
        """No node is oversold by what is bound and in flight, and no two pods share one that keep apart."""
        where = self.harness.assignments | {
            bind.pod.name: bind.node_name for bind in self.harness.pending_bindings.values()
        }
        assert all(pods <= PODS_PER_NODE for pods in Counter(where.values()).values())
        apart = Counter(node for name, node in where.items() if self.constraints[name] == APART)
        assert all(pods == 1 for pods in apart.values())

    def check_end(self) -> None:
        """Every pod is bound, and evenly over the zones where that is required."""
        where = self.harness.assignments
        assert where.keys() == self.constraints.keys()
        zones = Counter(
            int(where[name][1:]) % ZONES for name, constraint in self.constraints.items() if constraint == SPREAD
        )
        counts = [zones[zone] for zone in range(ZONES)]
        assert max(counts) - min(counts) <= 1


def prove_respected(script: Script) -> None:
    """Let bindings fail at random until all pods are bound, and check the constraints all the way."""
    constraints, seed, failing = script
    chance, cluster = random.Random(seed), Cluster(constraints, seed)
    cluster.check()
    for round_ in range(_ROUNDS):
        if not cluster.harness.pending_bindings:
            break
        cluster.answer(chance, failing if round_ < _ROUNDS // 2 else 0)
    cluster.check_end()


@quick(60)
@given(SCRIPTS)
def test_bindings_that_fail_in_flight_oversell_no_node_and_break_no_constraint(script: Script) -> None:
    prove_respected(script)


# -- planted bugs ------------------------------------------------------------------------------------------------


def test_a_place_that_is_taken_only_once_it_is_bound_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    start_binding = binding.start_binding

    def start(context: Context, assumed: AssumedPod, now: float) -> object:
        context.state.remove(assumed.pod.uid)
        assumed.confirmed = True
        return start_binding(context, assumed, now)

    monkeypatch.setattr(scheduling_cycle, "start_binding", start)
    monkeypatch.setattr("pyscheduler.testing.harness.validate", lambda _: None)
    assert_caught(prove_respected, SCRIPTS)


def test_a_place_that_a_failed_binding_does_not_give_back_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep(context: Context, assumed: AssumedPod) -> None:
        context.assumed.pop(assumed.pod.uid, None)

    monkeypatch.setattr("pyscheduler.core.binding.release", keep)
    monkeypatch.setattr("pyscheduler.testing.harness.validate", lambda _: None)
    assert_caught(prove_respected, SCRIPTS)
