"""Hundreds of concurrent bindings, any of which may fail, overcommit no node and violate no constraint between pods.

A pod is assumed on its node as soon as the node is selected, and later decisions include it, however many bindings are
in flight. Therefore the concurrency limit need not depend on the constraints between pods.
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
from pyscheduler.core.context import AssumedPod, Context
from pyscheduler.core.scheduling import binding, schedule_one
from pyscheduler.testing import Harness, PodBuilder, node, pod
from tests.properties.profiles import assert_caught, quick

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES, NODES, PODS_PER_NODE = 3, 24, 8
SPREAD, ANTI_AFFINITY, PLAIN = "spread", "anti-affinity", "plain"
_BACKOFF = 11.0
_ROUNDS = 60
Script = tuple[list[str], int, int]
"""The constraint of each pod, a seed for outcomes and their order, and the percentage of failing bindings."""
SCRIPTS = st.tuples(
    st.lists(st.sampled_from([SPREAD, SPREAD, ANTI_AFFINITY, PLAIN]), min_size=1, max_size=150),
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
    return (
        built.pod_anti_affinity({"topologyKey": HOSTNAME, "labelSelector": own})
        if constraint == ANTI_AFFINITY
        else built
    )


def _binding_error(error: str, _pod: Pod, _node: str) -> str:
    return error


class Cluster:
    """A scheduler with bindings that stay in flight until the test completes them."""

    def __init__(self, constraints: list[str], seed: int) -> None:
        self.harness = Harness(_config(), seed=seed)
        self.harness.complete_bindings = False
        allocatable = {"cpu": f"{PODS_PER_NODE // 2}"}
        for i in range(NODES):
            self.harness.add(node(f"n{i}", **allocatable).label(ZONE, f"z{i % ZONES}").label(HOSTNAME, f"n{i}"))
        per_node = iter(range(NODES))  # at most one pod per node can be placed
        self.constraints = {
            f"p{i}": constraint
            for i, constraint in enumerate(constraints)
            if constraint != ANTI_AFFINITY or next(per_node, None) is not None
        }
        for name, constraint in self.constraints.items():
            self.harness.add(_pod(name, constraint))
        self.harness.run()

    def complete_bindings(self, rng: random.Random, failing: int) -> None:
        """Complete all bindings in flight in random order; `failing` percent of them fail."""
        names = [bind.pod.name for bind in self.harness.pending_bindings.values()]
        rng.shuffle(names)
        for name in names:
            error = "connection reset" if rng.randrange(100) < failing else ""
            self.harness.binding_error = partial(_binding_error, error)
            self.harness.finish_binding(name)
            if rng.random() < 0.2:
                self.harness.run()
            self.check()
        self.harness.advance(_BACKOFF)

    def check(self) -> None:
        """Check that no node is overcommitted and no two pods with anti-affinity share a node."""
        node_of_pod = self.harness.assignments | {
            bind.pod.name: bind.node_name for bind in self.harness.pending_bindings.values()
        }
        assert all(pods <= PODS_PER_NODE for pods in Counter(node_of_pod.values()).values())
        per_node = Counter(node for name, node in node_of_pod.items() if self.constraints[name] == ANTI_AFFINITY)
        assert all(pods == 1 for pods in per_node.values())

    def check_end(self) -> None:
        """Check that every pod is bound, and spread evenly over the zones where required."""
        node_of_pod = self.harness.assignments
        assert node_of_pod.keys() == self.constraints.keys()
        zones = Counter(
            int(node_of_pod[name][1:]) % ZONES for name, constraint in self.constraints.items() if constraint == SPREAD
        )
        counts = [zones[zone] for zone in range(ZONES)]
        assert max(counts) - min(counts) <= 1


def check_constraints(script: Script) -> None:
    """Let bindings fail at random until all pods are bound, and check the constraints throughout."""
    constraints, seed, failing = script
    rng, cluster = random.Random(seed), Cluster(constraints, seed)
    cluster.check()
    for round_ in range(_ROUNDS):
        if not cluster.harness.pending_bindings:
            break
        cluster.complete_bindings(rng, failing if round_ < _ROUNDS // 2 else 0)
    cluster.check_end()


@quick(60)
@given(SCRIPTS)
def test_failing_bindings_violate_no_constraint(script: Script) -> None:
    check_constraints(script)


# -- planted bugs --------------------------------------------------------------------------------------------------


def test_property_catches_missing_assume(monkeypatch: pytest.MonkeyPatch) -> None:
    start_binding = binding.start_binding

    def start(context: Context, assumed: AssumedPod, now: float) -> object:
        context.state.remove(assumed.pod.uid)
        assumed.confirmed = True
        return start_binding(context, assumed, now)

    monkeypatch.setattr(schedule_one, "start_binding", start)
    monkeypatch.setattr("pyscheduler.testing.harness.validate", lambda _: None)
    assert_caught(check_constraints, SCRIPTS)


def test_property_catches_missing_forget(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep(context: Context, assumed: AssumedPod) -> None:
        context.assumed.pop(assumed.pod.uid, None)

    monkeypatch.setattr("pyscheduler.core.scheduling.binding.forget_pod", keep)
    monkeypatch.setattr("pyscheduler.testing.harness.validate", lambda _: None)
    assert_caught(check_constraints, SCRIPTS)
