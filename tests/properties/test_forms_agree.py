"""For every in-tree plugin, the vectorised methods return the same results as the per-node ones on any cluster.

Amounts are drawn where arithmetic breaks: zero, one more or less than available, numbers that no float holds, and the
largest int64.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyscheduler.api import Cycle, NodeEquivalence, NodeTable, NodeToStatus, Plugin, Pod, Rejection, Scores
from pyscheduler.api.objects import NodeAffinity as NodeAffinityObject
from pyscheduler.api.objects import TopologySpreadConstraint
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.intree import (
    PLUGINS,
    NodeAffinity,
    NodeResourcesBalancedAllocation,
    NodeResourcesFit,
    NodeVolumeLimits,
    PodTopologySpread,
    VolumeRestrictions,
)
from pyscheduler.intree._scoring import (
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from pyscheduler.intree.node_declared_features import RESTART_ALL
from pyscheduler.intree.spread.default_selector import SERVICES
from pyscheduler.intree.spread.score import WeightedConstraints
from pyscheduler.intree.volumes.objects import CLAIM, CSI_NODE, VOLUME, VOLUME_ATTACHMENT
from pyscheduler.testing import NodeBuilder, PodBuilder, node, pod
from pyscheduler.testing.conformance import assert_forms_agree

GPU = "nvidia.com/gpu"
RESOURCES = ("cpu", "memory", "ephemeral-storage", GPU, "hugepages-2Mi")
KEYS, VALUES = ("a", "b"), ("", "1", "2", "x")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
IMAGES = ("app:1", "app:latest", "host:5000/x:1")

amounts = st.sampled_from(
    [
        "0",
        "1",
        "2",
        "999m",
        "1000m",
        "1001m",
        "4",
        "64Mi",
        "1Gi",
        "3Gi",
        "9007199254740993",
        "1Ei",
        "9223372036854775807",
    ]
)
labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))


volumes = st.sampled_from(
    [
        {"name": "disk", "gcePersistentDisk": {"pdName": "1"}},
        {"name": "read", "gcePersistentDisk": {"pdName": "1", "readOnly": True}},
        {"name": "ceph", "rbd": {"monitors": ["a", "b"], "image": "1"}},
        {"name": "other", "rbd": {"monitors": ["b", "c"], "image": "1"}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "alone"}},
    ]
)


@st.composite
def terms(draw: st.DrawFn, sound: bool = False) -> dict[str, Any]:
    """Draw a nodeSelectorTerm, valid if `sound`: invalid preferences end the attempt."""
    operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]))
    values = draw(st.lists(st.sampled_from(VALUES), max_size=2))
    if sound:
        values = [] if operator in ("Exists", "DoesNotExist") else ["1"]
    expression = {"key": draw(st.sampled_from(KEYS)), "operator": operator, "values": values}
    name = {"key": "metadata.name", "operator": draw(st.sampled_from(["In", "NotIn"])), "values": ["n1"]}
    by_label, by_name = {"matchExpressions": [expression]}, {"matchFields": [name]}
    return draw(st.sampled_from([{}, by_label, by_name, {**by_label, **by_name}]))


@st.composite
def constraints(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a topology spread constraint; its selector matches no pods, all or some."""
    some = {"matchExpressions": [{"key": "a", "operator": draw(st.sampled_from(["Exists", "DoesNotExist"]))}]}
    policies = st.sampled_from([None, "Honor", "Ignore"])
    drawn = {
        "maxSkew": draw(st.integers(1, 3)),
        "topologyKey": draw(st.sampled_from((*KEYS, "kubernetes.io/hostname"))),
        "whenUnsatisfiable": draw(st.sampled_from(["DoNotSchedule", "ScheduleAnyway"])),
        "labelSelector": draw(st.sampled_from([None, {}, some, {"matchLabels": {"b": "1"}}])),
        "minDomains": draw(st.sampled_from([None, 1, 3])),
        "nodeAffinityPolicy": draw(policies),
        "nodeTaintsPolicy": draw(policies),
        "matchLabelKeys": draw(st.sampled_from([None, ["a"]])),
    }
    return {field: value for field, value in drawn.items() if value is not None}


selectors: list[dict[str, Any] | None] = [
    {},
    {"matchLabels": {"b": "1"}},
    *({"matchExpressions": [{"key": "a", "operator": operator}]} for operator in ("Exists", "DoesNotExist")),
    None,
]


@st.composite
def affinity_terms(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a podAffinityTerm over few topologies, so that terms match the same domains."""
    drawn = {
        "topologyKey": draw(st.sampled_from((*KEYS, "kubernetes.io/hostname"))),
        "labelSelector": draw(st.sampled_from(selectors)),
        "namespaceSelector": draw(st.sampled_from([None, None, *selectors])),
    }
    return {field: value for field, value in drawn.items() if value is not None}


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeBuilder:
    drawn = node(name, cpu=draw(amounts), memory=draw(amounts), pods=draw(st.sampled_from(["0", "1", "3", "110"])))
    if draw(st.integers(0, 4)) == 0:
        del drawn.manifest["metadata"]["labels"]["kubernetes.io/hostname"]
    for resource in draw(st.sets(st.sampled_from(RESOURCES[2:]))):
        drawn = drawn.has(resource, draw(amounts))
    for key, value in draw(labels).items():
        drawn = drawn.label(key, value)
    for key in draw(st.lists(st.sampled_from(KEYS), max_size=2)):
        drawn = drawn.taint(key, draw(st.sampled_from(VALUES)), draw(st.sampled_from(EFFECTS)))
    for image in draw(st.sets(st.sampled_from(IMAGES))):
        drawn = drawn.image(image, draw(st.integers(0, 2**40)))
    if draw(st.booleans()):
        drawn = drawn.declares(*draw(st.sets(st.sampled_from([RESTART_ALL, "Other"]))))
    return drawn.unschedulable() if draw(st.booleans()) else drawn


@st.composite
def pods(draw: st.DrawFn, name: str) -> PodBuilder:
    drawn = pod(name).image(draw(st.sampled_from(["app", *IMAGES])))
    for resource in draw(st.sets(st.sampled_from(RESOURCES))):
        drawn = drawn.request(resource, draw(amounts))
    if draw(st.booleans()):
        drawn = drawn.container(image="app", resources={"requests": {"memory": draw(amounts)}})
    if draw(st.booleans()):
        drawn = drawn.spec(resources={"requests": {"cpu": draw(amounts)}})
    if draw(st.booleans()):
        drawn = drawn.spec(volumes=draw(st.lists(volumes, max_size=2)))
    if draw(st.booleans()):
        drawn = drawn.container(restartPolicyRules=[{"action": draw(st.sampled_from(["", "RestartAllContainers"]))}])
    for key, value in draw(labels).items():
        drawn = drawn.label(key, value)
    for method in draw(
        st.lists(
            st.sampled_from(
                ["pod_affinity", "pod_anti_affinity", "preferred_pod_affinity", "preferred_pod_anti_affinity"]
            ),
            max_size=3,
        )
    ):
        weight = (draw(st.integers(0, 100)),) if method.startswith("preferred") else ()
        drawn = getattr(drawn, method)(*weight, draw(affinity_terms()))
    if draw(st.booleans()):
        drawn = drawn.deleting()
    for port in draw(st.sets(st.integers(80, 82), max_size=2)):
        drawn = drawn.host_port(port, draw(st.sampled_from(["TCP", "UDP"])), draw(st.sampled_from(["", "1.1.1.1"])))
    return drawn


@st.composite
def constrained_pods(draw: st.DrawFn, name: str) -> PodBuilder:
    """Draw a pod with node constraints and tolerations."""
    drawn = draw(pods(name))
    for key in draw(st.lists(st.sampled_from(("", *KEYS)), max_size=2)):
        operator = "Exists" if not key else draw(st.sampled_from(["Exists", "Equal", "Gt"]))
        value = "" if operator == "Exists" else draw(st.sampled_from(VALUES))
        drawn = drawn.tolerates(key, value, draw(st.sampled_from(("", *EFFECTS))), operator)
    if draw(st.booleans()):
        drawn = drawn.spec(topologySpreadConstraints=draw(st.lists(constraints(), max_size=3)))
    if draw(st.booleans()):
        drawn = drawn.spec(nodeSelector=draw(labels))
    if draw(st.booleans()):
        drawn = drawn.node_affinity(*draw(st.lists(terms(), max_size=2)))
    for term in draw(st.lists(terms(sound=True), max_size=2)):
        drawn = drawn.preferred_node_affinity(draw(st.integers(0, 100)), term)
    return drawn.on("n1") if draw(st.booleans()) else drawn


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[NodeBuilder], list[PodBuilder]]:
    names = [f"n{i}" for i in range(draw(st.integers(1, 5)))]
    running = [draw(pods(f"p{i}")).on(draw(st.sampled_from(names))) for i in range(draw(st.integers(0, 4)))]
    return [draw(nodes(name)) for name in names], running


def fit(kind: str, resources: tuple[str, ...], points: tuple[tuple[int, int], ...] = ()) -> Plugin:
    shape = tuple(UtilizationShapePoint(*point) for point in points)
    ratio = RequestedToCapacityRatioParam(shape) if shape else None
    specs = tuple(ResourceSpec(name, 1 + 2 * i) for i, name in enumerate(resources))
    strategy = ScoringStrategy(kind, specs, ratio)
    return NodeResourcesFit(NodeResourcesFit.Args((GPU,), (), strategy), empty_handle())


def balance(*resources: str) -> Plugin:
    args = NodeResourcesBalancedAllocation.Args(tuple(ResourceSpec(name) for name in resources))
    return NodeResourcesBalancedAllocation(args, empty_handle())


def added_affinity() -> Plugin:
    exists = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    added = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [exists]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": exists}],
    }
    return NodeAffinity(NodeAffinity.Args(msgspec.convert(added, NodeAffinityObject)), empty_handle())


def exclusive_claim() -> Plugin:
    handle, meta = empty_handle(), {"name": "alone", "namespace": "default"}
    handle.objects.set(CLAIM, {"metadata": meta, "spec": {"accessModes": ["ReadWriteOncePod"]}})
    return VolumeRestrictions(VolumeRestrictions.Args(), handle)


def limited_volumes() -> Plugin:
    handle, driver = empty_handle(), "pd.csi.storage.gke.io"
    for name, count in (("n0", 0), ("n1", 1), ("n2", 2)):
        allocatable = {"name": driver, "allocatable": {"count": count}}
        handle.objects.set(CSI_NODE, {"metadata": {"name": name}, "spec": {"drivers": [allocatable]}})
    meta = {"name": "alone", "namespace": "default"}
    handle.objects.set(CLAIM, {"metadata": meta, "spec": {"volumeName": "one"}})
    source = {"csi": {"driver": driver, "volumeHandle": "one"}}
    handle.objects.set(VOLUME, {"metadata": {"name": "one"}, "spec": source})
    spec = {"attacher": driver, "nodeName": "n2", "source": {"persistentVolumeName": "one"}}
    handle.objects.set(VOLUME_ATTACHMENT, {"metadata": {"name": "x"}, "spec": spec})
    return NodeVolumeLimits(NodeVolumeLimits.Args(), handle)


def default_constraints() -> Plugin:
    handle, meta = empty_handle(), {"name": "s", "namespace": "default"}
    handle.objects.set(SERVICES, {"metadata": meta, "spec": {"selector": {"b": "1"}}})
    args = [
        TopologySpreadConstraint(max_skew=1, topology_key="a", when_unsatisfiable=action, node_taints_policy="Honor")
        for action in ("DoNotSchedule", "ScheduleAnyway")
    ]
    return PodTopologySpread(PodTopologySpread.Args(tuple(args), "List"), handle)


SUBJECTS: list[Plugin] = [
    *(plugin(plugin.Args(), empty_handle()) for plugin in PLUGINS),
    fit("LeastAllocated", RESOURCES),
    fit("MostAllocated", ("cpu", GPU)),
    fit("RequestedToCapacityRatio", RESOURCES, ((0, 0), (30, 7), (100, 10))),
    fit("RequestedToCapacityRatio", ("memory",), ((0, 10), (3, 0))),
    balance("memory"),
    balance("cpu", GPU),
    balance("cpu", "memory", "ephemeral-storage"),
    balance(*RESOURCES),
    added_affinity(),
    default_constraints(),
    exclusive_claim(),
    limited_volumes(),
]


@settings(max_examples=100, deadline=None)
@given(clusters(), constrained_pods("incoming"))
def test_vectorised_methods_equal_per_node_methods(
    cluster: tuple[list[NodeBuilder], list[PodBuilder]], incoming: PodBuilder
) -> None:
    built, running = [n.build() for n in cluster[0]], [p.build() for p in cluster[1]]
    for plugin in SUBJECTS:
        assert_forms_agree(plugin, incoming.build(), built, running)


class OffByOne(NodeResourcesFit):
    """Reject nodes that fit exactly in the vectorised method."""

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        verdicts = super().filter_all(cycle, pod, nodes)
        verdicts.reject(nodes.allocatable("cpu") == pod.requests.real["cpu"], Rejection("Insufficient cpu"))
        return verdicts


class Wrapping(NodeResourcesFit):
    """Multiply without checking that int64 can hold the product."""

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        shares = [
            (nodes.allocatable(r) - nodes.non_zero_requested(r) - pod.requests.scored[r]) * 100 // nodes.allocatable(r)
            for r in ("cpu", "memory")
        ]
        return (shares[0] + shares[1]) // 2


class OneShort(NodeResourcesFit):
    """Leave out the last node."""

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        return super().score_all(cycle, pod, nodes)[:-1]


class Unbounded(NodeResourcesFit):
    """Return scores above 100."""

    def normalize(self, cycle: Cycle, pod: Pod, scores: Scores) -> Scores:
        return scores + np.int64(100)


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (OffByOne, "NodeResourcesFit on n: filter returns None, filter_all returns Rejection"),
        (Wrapping, "NodeResourcesFit on n: score returns 99, score_all returns"),
        (OneShort, "score_all returns 0 results for 1 node"),
        (Unbounded, r"normalised scores \[.*\] are not in 0..100"),
    ],
)
def test_comparison_catches_planted_bug(plugin: type[NodeResourcesFit], message: str) -> None:
    huge, incoming = node("n", cpu="4", memory="9223372036854775807"), pod().requests(cpu="4", memory="1Gi")
    incoming = incoming if plugin is OffByOne else incoming.requests(cpu="1m")
    with pytest.raises(AssertionError, match=message):
        assert_forms_agree(plugin(plugin.Args(), empty_handle()), incoming.build(), [huge.build()])


class EqualPerZone(NodeResourcesFit):
    """Claim that all nodes of a zone score alike, whatever runs on them."""

    def score_equivalence(self, cycle: Cycle) -> NodeEquivalence:
        return NodeEquivalence(("zone",))


def test_wrong_score_equivalence_is_reported() -> None:
    fleet = [node(name).label("zone", zone).build() for name, zone in (("n1", "a"), ("n2", "b"), ("n3", "a"))]
    busy = pod("busy").requests(cpu="3").on("n3").build()
    plugin = EqualPerZone(EqualPerZone.Args(), empty_handle())
    assert_forms_agree(plugin, pod().requests(cpu="1").build(), fleet)
    with pytest.raises(AssertionError, match="NodeResourcesFit: score_equivalence groups n1 and n3"):
        assert_forms_agree(plugin, pod().requests(cpu="1").build(), fleet, [busy])


def test_wrong_score_equivalence_of_nodes_without_hostname_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    named, nameless = node("named"), node("nameless")
    del nameless.manifest["metadata"]["labels"]["kubernetes.io/hostname"]
    constraint = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    spread = pod().spec(topologySpreadConstraints=[{**constraint, "labelSelector": {}}]).build()
    plugin = PodTopologySpread(PodTopologySpread.Args(), empty_handle())
    assert_forms_agree(plugin, spread, [named.build(), nameless.build()])
    monkeypatch.setattr(WeightedConstraints, "equivalence", NodeEquivalence())
    with pytest.raises(AssertionError, match="PodTopologySpread: score_equivalence groups named and nameless"):
        assert_forms_agree(plugin, spread, [named.build(), nameless.build()])
