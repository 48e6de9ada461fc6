"""Usage: nodes are rejected and scored by the usage that NodeMetric objects report."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import Action, ClusterEvent, Cycle, QueueingHint
from pyscheduler.core.framework.handle import build_handle
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.state import ClusterState
from pyscheduler.testing import Harness, PodBuilder, node, pod
from pyscheduler.testing.conformance import assert_filters_agree, assert_scores_agree
from pyscheduler_plugins.usage.plugin import Percentages, Usage, UsageArgs, Weights
from pyscheduler_plugins.usage.samples import NODE_METRIC, sample_of

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint: {enabled: [{name: Usage, weight: 5}]}
"""
NOON, LATER, MUCH_LATER = "2026-01-01T12:00:00Z", "2026-01-01T12:04:00Z", "2026-01-01T12:06:00Z"
START = "1970-01-01T00:00:00Z"
"""Before any pod of a harness starts."""
NO_ROOM = "0/1 nodes are available: 1 node(s) had a {} usage above the threshold."


def metric(name: str, cpu: str = "0", memory: str = "0", at: str = NOON) -> dict[str, Any]:
    usage = {"nodeUsage": {"resources": {"cpu": cpu, "memory": memory}}}
    meta = {"name": name}
    return {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": meta,
        "status": {"updateTime": at, "nodeMetric": usage},
    }


def small(name: str) -> PodBuilder:
    return pod(name).requests(cpu="10m", memory="1Mi")


def harness(*metrics: dict[str, Any], nodes: int = 1) -> Harness:
    cluster = Harness(CONFIG)
    for each in metrics:
        cluster.apply(each)
    cluster.add(*(node(f"n{i}", cpu="10", memory="10Gi") for i in range(nodes)))
    return cluster


def message(cluster: Harness, name: str) -> str:
    found = cluster.condition("Pod", f"default/{name}", "PodScheduled")
    return "" if found is None else str(found.get("message", ""))


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        pytest.param(metric("n0", cpu="8001m"), NO_ROOM.format("cpu"), id="cpu above"),
        pytest.param(metric("n0", memory="8193Mi"), NO_ROOM.format("memory"), id="memory above"),
        pytest.param(metric("n0", cpu="8", memory="8Gi"), "", id="at the threshold"),
        pytest.param(metric("other", cpu="10"), "", id="no sample of the node"),
        pytest.param(metric("n0", cpu="much"), "", id="invalid sample"),
        pytest.param({**metric("n0"), "status": {}}, "", id="no sample yet"),
    ],
)
def test_busy_nodes_are_rejected(sample: dict[str, Any], expected: str) -> None:
    cluster = harness(sample)
    cluster.add(small("p"))
    cluster.run()
    assert message(cluster, "p").startswith(expected)
    assert bool(cluster.bindings) is not bool(expected)


def test_stale_sample_is_ignored_after_newer_ones_of_other_nodes() -> None:
    for other, is_bound in ((LATER, False), (MUCH_LATER, True)):
        cluster = harness(metric("n0", cpu="10"), metric("gone", at=other))
        cluster.add(small("p"))
        cluster.run()
        assert bool(cluster.bindings) is is_bound


def test_pods_of_daemon_sets_run_on_busy_nodes() -> None:
    cluster = harness(metric("n0", cpu="10"))
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    cluster.add(small("p")._with("metadata.ownerReferences", [owner]))
    cluster.run()
    assert cluster.bindings == {"default/p": "n0"}


def test_pod_is_retried_when_usage_falls_below_the_threshold() -> None:
    cluster = harness(metric("n0", cpu="9"))
    cluster.add(small("p"))
    cluster.run()
    cluster.apply(metric("n0", cpu="8500m", at=LATER))
    cluster.advance(20)
    assert cluster.bindings == {}
    cluster.apply(metric("n0", cpu="2", at=LATER))
    cluster.advance(20)
    assert cluster.bindings == {"default/p": "n0"}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param("9", "2", QueueingHint.QUEUE, id="fell below the threshold"),
        pytest.param("9", "8500m", QueueingHint.SKIP, id="still above it"),
        pytest.param("2", "1", QueueingHint.SKIP, id="was not above it"),
        pytest.param("9", None, QueueingHint.QUEUE, id="deleted"),
        pytest.param("2", None, QueueingHint.SKIP, id="deleted, and was not above it"),
    ],
)
def test_hint_queues_pods_only_if_a_busy_node_is_no_longer_busy(
    old: str, new: str | None, expected: QueueingHint
) -> None:
    state = ClusterState()
    state.set_node(node("n0", cpu="10").build())
    plugin = Usage(UsageArgs(), build_handle(state, Nominator(), {}, pending_pod=lambda _: None))
    [hint] = [each.hint for each in plugin.events_to_register() if each.resource == "NodeMetric"]
    action = Action.DELETE if new is None else Action.UPDATE
    event = ClusterEvent("NodeMetric", action, metric("n0", old), None if new is None else metric("n0", new))
    assert hint is not None
    assert hint(small("p").build(), event) is expected


def test_pod_is_retried_when_the_sample_of_a_busy_node_is_deleted() -> None:
    cluster = harness(metric("n0", cpu="9"))
    cluster.add(small("p"))
    cluster.run()
    cluster.delete("NodeMetric", "n0", "")
    cluster.advance(20)
    assert cluster.bindings == {"default/p": "n0"}


def test_idlest_node_is_preferred_to_the_one_with_the_fewest_requests() -> None:
    cluster = harness(metric("n0", cpu="6", memory="6Gi"), metric("n1", cpu="1", memory="1Gi"), nodes=2)
    cluster.add(pod("r").requests(cpu="5").on("n1").started("2026-01-01T10:00:00Z"), small("p"))
    cluster.run()
    assert cluster.bindings["default/p"] == "n1"


def test_pods_that_are_not_measured_yet_count_with_their_requests() -> None:
    cluster = harness(metric("n0", cpu="2", at=START), metric("n1", cpu="1", at=START), nodes=2)
    cluster.add(*(pod(f"p{i}").requests(cpu="2", memory="2Gi") for i in range(4)))
    cluster.run()
    assert sorted(cluster.bindings.values()) == ["n0", "n0", "n1", "n1"]


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        pytest.param(lambda: UsageArgs(Percentages(cpu=101)), "thresholds.cpu: must be from 0 to 100", id="threshold"),
        pytest.param(lambda: UsageArgs(weights=Weights(memory=-1)), "weights.memory: must be from 0", id="weight"),
        pytest.param(lambda: UsageArgs(weights=Weights(0, 0)), "weights: one of them", id="no weight"),
        pytest.param(lambda: UsageArgs(max_age_seconds=0), "maxAgeSeconds: must be above 0", id="age"),
    ],
)
def test_invalid_arguments_are_rejected(build: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        build()


def test_sample_has_amounts_and_time() -> None:
    sample = sample_of(metric("n", cpu="1500m", memory="1Ki", at="1970-01-01T00:01:00Z"))
    assert sample == (60.0, (1500, 1024))


amounts = st.one_of(st.integers(0, 12), st.sampled_from([2**40, 2**62]))
times = st.sampled_from([NOON, LATER, MUCH_LATER])
samples = st.lists(st.tuples(st.integers(0, 4), amounts, amounts, times), max_size=6)


@given(rounds=st.lists(st.tuples(samples, st.lists(st.tuples(st.integers(0, 3), times), max_size=3)), max_size=4))
def test_forms_agree_while_samples_and_pods_change(rounds: list[tuple[list[Any], list[Any]]]) -> None:
    state = ClusterState()
    handle = build_handle(state, Nominator(), {}, pending_pod=lambda _: None)
    plugin = Usage(UsageArgs(), handle)
    for i in range(4):
        state.set_node(node(f"n{i}", cpu="10", memory="10").build())
    incoming = small("p").build()
    for number, (reported, started) in enumerate(rounds):
        for i, cpu, memory, at in reported:
            handle.objects.set(NODE_METRIC, metric(f"n{i}", str(cpu), str(memory), at))
        for i, at in started:
            state.add_pod(pod(f"r{number}{i}{at}").requests(cpu="1", memory="2").on(f"n{i}").started(at).build())
        for table in (state.table(), state.table(np.array([2, 0]))):
            cycle = Cycle(now=0.0, profile="default-scheduler", uid="u")
            assert_filters_agree(plugin, cycle, incoming, table)
            assert_scores_agree(plugin, cycle, incoming, table)
