"""Both forms of the volume plugins return equal results for any volumes, claims and classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pyscheduler.api import Cycle, NodeTable, Pod, Rejection, StatusError
from pyscheduler.intree import VolumeBinding, VolumeZone
from pyscheduler.testing import NodeBuilder, node
from tests.unit.intree import storage
from tests.unit.intree.storage import Cluster, Manifest, meta, obj, spec

ZONE, BETA_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION, AWS_ZONE = "topology.kubernetes.io/region", "topology.ebs.csi.aws.com/zone"
KEYS, VALUES = (ZONE, BETA_ZONE, REGION, AWS_ZONE), ("z1", "z2", "z1__z2")
SIZES = ("1Gi", "2Gi", "3Gi")
CLASSES = ("late", "made", "now")
NAMES = ("c0", "c1", "c2")
AWS = "kubernetes.io/aws-ebs"

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=3)
sizes = st.sampled_from(SIZES)
nothing = st.none()


@st.composite
def affinities(draw: st.DrawFn) -> Manifest:
    operators = st.sampled_from(["In", "In", "NotIn", "Exists"])
    terms = []
    for _ in range(draw(st.integers(0, 2))):
        operator = draw(operators)
        values = ["z1"] if operator.endswith("In") else []
        terms.append(
            {"matchExpressions": [{"key": draw(st.sampled_from(KEYS)), "operator": operator, "values": values}]}
        )
    return {"required": {"nodeSelectorTerms": terms}}


@st.composite
def volumes(draw: st.DrawFn, name: str) -> Manifest:
    built = storage.volume(name, draw(sizes), draw(st.sampled_from(CLASSES)))
    affinity = draw(nothing | affinities())
    holder = draw(nothing | st.sampled_from(NAMES))
    source = draw(st.sampled_from([{}, {"awsElasticBlockStore": {"volumeID": "vol-1"}}, {"azureDisk": {"kind": "x"}}]))
    fields: Manifest = {**source, "nodeAffinity": affinity}
    if holder:
        fields["claimRef"] = {"namespace": "default", "name": holder}
    return meta(spec(built, **fields), labels=draw(labels))


@st.composite
def claims(draw: st.DrawFn, name: str) -> Manifest:
    built = storage.claim(name, draw(sizes), draw(st.sampled_from(CLASSES)))
    kind = draw(st.sampled_from(["open", "open", "bound", "begun"]))
    if kind == "bound":
        to = draw(st.sampled_from(["v0", "v1", "gone"]))
        return meta(spec(built, volumeName=to), annotations={"pv.kubernetes.io/bind-completed": "yes"})
    if kind == "begun":
        chosen = draw(st.sampled_from(["n0", "n1"]))
        return meta(built, annotations={"volume.kubernetes.io/selected-node": chosen})
    selector = draw(
        st.sampled_from(
            [
                None,
                {},
                {"matchExpressions": [{"key": ZONE, "operator": "Exists"}]},
                {"matchExpressions": [{"key": "x", "operator": "?"}]},
            ]
        )
    )
    return spec(built, selector=selector)


@st.composite
def classes(draw: st.DrawFn) -> list[Manifest]:
    topologies = [{"matchLabelExpressions": [{"key": draw(st.sampled_from(KEYS)), "values": ["z1"]}]}]
    allowed = draw(st.sampled_from([[], topologies]))
    none = "kubernetes.io/no-provisioner"
    return [
        storage.storage_class("late", provisioner=draw(st.sampled_from([none, "maker"]))),
        storage.storage_class("made", allowedTopologies=allowed),
        storage.storage_class("now", draw(st.sampled_from(["Immediate", "WaitForFirstConsumer"]))),
    ]


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeBuilder:
    built = node(name)
    for key, value in draw(labels).items():
        built = built.label(key, value)
    return built


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    plugins = {"storage.alpha.kubernetes.io/migrated-plugins": f"{AWS},kubernetes.io/azure-disk"}
    objects = [draw(volumes(f"v{i}")) for i in range(draw(st.integers(0, 5)))]
    objects += [draw(claims(name)) for name in NAMES]
    objects += draw(classes())
    objects += [meta(obj("CSINode", f"n{i}"), annotations=plugins) for i in range(2) if draw(st.booleans())]
    if draw(st.booleans()):
        objects.append(obj("CSIDriver", "maker", spec={"storageCapacity": True}))
        topology = {"matchLabels": draw(labels)}
        objects.append(
            obj("CSIStorageCapacity", "c", storageClassName="made", capacity=draw(sizes), nodeTopology=topology)
        )
    return Cluster(*objects, nodes=[draw(nodes(f"n{i}")) for i in range(draw(st.integers(1, 5)))])


Answers = list[Rejection | None] | str


def result_or_error(answer: Callable[[], list[Rejection | None]]) -> Answers:
    try:
        return answer()
    except StatusError:
        # The first of several errors depends on whether nodes or volumes are iterated first.
        return "error"


def forms(plugin: Any, incoming: Pod, table: NodeTable) -> tuple[Answers, Answers]:
    """Return the results of `filter` and of `filter_all` for every node."""
    cycle = Cycle(0.0, "default-scheduler", incoming.uid)
    try:
        if plugin.pre_filter(cycle, incoming, table) is not None:
            return [], []
    except StatusError:
        return [], []
    per_node = result_or_error(lambda: [plugin.filter(cycle, incoming, info) for info in table])
    verdicts = result_or_error(lambda: [plugin.filter_all(cycle, incoming, table).at(i) for i in range(len(table))])
    return per_node, verdicts


@settings(max_examples=150, deadline=None)
@given(clusters(), st.lists(st.sampled_from(NAMES), min_size=1, max_size=3))
def test_filter_equals_filter_all_for_volume_plugins(cluster: Cluster, used: list[str]) -> None:
    incoming = storage.using(*used).build()
    for plugin in (VolumeBinding, VolumeZone):
        per_node, vectorised = forms(plugin(plugin.Args(), cluster.handle), incoming, cluster.state.table())
        assert per_node == vectorised
