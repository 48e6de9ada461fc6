"""Requeueing: an unschedulable pod is bound within its backoff after the change that makes it schedulable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyscheduler.api import ResourceKind
from pyscheduler.intree.affinity.namespaces import NAMESPACE
from pyscheduler.intree.volumes import objects as kinds
from pyscheduler.testing import Harness, NodeBuilder, PodBuilder, node, pod

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
FIRST_BACKOFF = 20.0
"""Seconds after which the first backoff of every pod has ended."""
WITHIN = 12.0
"""Seconds: the maximum backoff and one more."""
Json = dict[str, Any]
Change = Callable[[Harness], None]


def term(app: str, key: str = HOST, **fields: Any) -> Json:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **fields}


def team_term(app: str, team: str) -> Json:
    return term(app, namespaceSelector={"matchLabels": {"team": team}})


def namespace(name: str, **labels: str) -> Callable[[Harness], None]:
    return lambda harness: harness.add_object(NAMESPACE, {"metadata": {"name": name, "labels": labels}})


def add(*objects: PodBuilder | NodeBuilder) -> Change:
    return lambda harness: harness.add(*objects)


def stored(kind: ResourceKind, name: str, **fields: Any) -> Change:
    meta: Json = {"name": name, **({"namespace": "default", "uid": name} if kind.namespaced else {})}
    meta |= fields.pop("metadata", {})
    return lambda harness: harness.add_object(kind, {"metadata": meta, **fields})


def removed(kind: ResourceKind, name: str) -> Change:
    return lambda harness: harness.remove_object(kind, name, "default" if kind.namespaced else "")


def deleted(name: str, of: str = "default") -> Change:
    return lambda harness: harness.delete_pod(name, of)


def claim(name: str, volume: str = "") -> Change:
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "late", "volumeName": volume}
    spec["resources"] = {"requests": {"storage": "1Gi"}}  # type: ignore[assignment]
    return stored(kinds.CLAIM, name, metadata={"annotations": bound}, spec=spec)


def volume(name: str, of: str = "", driver: str = "d.csi") -> Change:
    spec: Json = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "late"}
    spec["csi"] = {"driver": driver, "volumeHandle": name}
    if of:
        spec["claimRef"] = {"name": of, "namespace": "default", "uid": of}
    return stored(kinds.VOLUME, name, spec=spec, status={"phase": "Bound" if of else "Available"})


def csi_node(name: str, **limits: int) -> Change:
    drivers = [{"name": "d.csi", "allocatable": {"count": n}} for n in limits.values()]
    return stored(kinds.CSI_NODE, name, spec={"drivers": drivers})


def using(name: str, *claims: str) -> PodBuilder:
    return pod(name).spec(volumes=[{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims])


def spread(**fields: Any) -> Json:
    chosen = {"labelSelector": {"matchLabels": {"app": "x"}}, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": ZONE, **chosen, **fields}]}


LATE = stored(kinds.STORAGE_CLASS, "late", provisioner="d.csi", volumeBindingMode="WaitForFirstConsumer")
TRACKED = stored(kinds.CSI_DRIVER, "d.csi", spec={"storageCapacity": True})
SELF = pod("p").label("app", "x").pod_affinity(term("x"))
PEER = pod("peer").label("app", "x").on("n1")
A, B = pod("a").label("app", "a"), pod("b").label("app", "b")
FULL = [LATE, claim("a", "va"), claim("b", "vb"), volume("va", "a"), volume("vb", "b"), csi_node("n1", d=1)]
ATTACHED = stored(
    kinds.VOLUME_ATTACHMENT,
    "at",
    spec={"attacher": "d.csi", "nodeName": "n1", "source": {"persistentVolumeName": "va"}},
)
SPREAD = pod("p").label("app", "x").requests(cpu="1").spec(**spread())
HONORS = pod("p").label("app", "x").requests(cpu="1").node_selector(disk="ssd").spec(**spread())

CASES: dict[str, tuple[list[Change], PodBuilder, Change]] = {
    "the last peer of a required self-affinity is deleted": (
        [add(node("n1").unschedulable(), node("n2"), PEER)],
        SELF,
        deleted("peer"),
    ),
    "the last peer of a required self-affinity is relabelled": (
        [add(node("n1").unschedulable(), node("n2"), PEER)],
        SELF,
        add(PEER.label("app", "z")),
    ),
    "the node of the last peer is deleted": (
        [add(node("n1").unschedulable(), node("n2"), PEER)],
        SELF,
        lambda harness: harness.delete_node("n1"),
    ),
    "a pod is added in a namespace that namespaceSelector selects": (
        [add(node("n1")), namespace("blue", team="x")],
        pod("p").pod_affinity(team_term("a", "x")),
        add(A.namespace("blue").on("n1")),
    ),
    "a pod is deleted in a namespace that namespaceSelector selects": (
        [add(node("n1")), namespace("blue", team="x"), add(A.namespace("blue").on("n1"))],
        pod("p").pod_anti_affinity(team_term("a", "x")),
        deleted("a", "blue"),
    ),
    "a namespace is relabelled so that anti-affinity does not select it": (
        [add(node("n1")), namespace("blue", team="x"), add(A.namespace("blue").on("n1"))],
        pod("p").pod_anti_affinity(team_term("a", "x")),
        namespace("blue", team="y"),
    ),
    "the pod's own namespace is relabelled so that another pod's anti-affinity does not select it": (
        [add(node("n1")), namespace("default", team="x"), add(A.pod_anti_affinity(team_term("b", "x")).on("n1"))],
        pod("p").label("app", "b"),
        namespace("default", team="y"),
    ),
    "one of two anti-affinity terms is freed by a deletion": (
        [add(node("n1"), A.on("n1"))],
        pod("p").pod_anti_affinity(term("a"), term("b")),
        deleted("a"),
    ),
    "one of two anti-affinity terms is freed by a relabelling": (
        [add(node("n1"), A.on("n1"))],
        pod("p").pod_anti_affinity(term("a"), term("b")),
        add(A.label("app", "z").on("n1")),
    ),
    "another pod with two anti-affinity terms is deleted": (
        [add(node("n1"), A.pod_anti_affinity(term("b"), term("q")).on("n1"))],
        B,
        deleted("a"),
    ),
    "a node is added outside the topology domain of another pod's anti-affinity": (
        [add(node("n1"), A.pod_anti_affinity(term("b")).on("n1"))],
        B,
        add(node("n2")),
    ),
    "a node moves out of the zone of another pod's anti-affinity": (
        [add(node("n1").zone("a"), node("n2").zone("a"), A.pod_anti_affinity(term("b", ZONE)).on("n1"))],
        B,
        add(node("n2").zone("b")),
    ),
    "a matching pod begins to terminate": (
        [add(node("n1").zone("a"), node("n2", cpu="0").zone("b"), PEER)],
        SPREAD,
        add(PEER.deleting()),
    ),
    "a node is excluded by nodeAffinityPolicy after an update": (
        [add(node("n1").zone("a").label("disk", "ssd"), node("n2", cpu="0").zone("b").label("disk", "ssd"), PEER)],
        HONORS,
        add(node("n2", cpu="0").zone("b")),
    ),
    "the driver of a StorageClass stops publishing its capacity": (
        [add(node("n1")), LATE, TRACKED, claim("c")],
        using("p", "c"),
        stored(kinds.CSI_DRIVER, "d.csi", spec={"storageCapacity": False}),
    ),
    "a driver is unregistered from a node at its volume limit": (
        [add(node("n1")), *FULL, add(using("w", "a").on("n1"))],
        using("p", "b"),
        csi_node("n1"),
    ),
    "the CSINode of a full node is deleted": (
        [add(node("n1")), *FULL, add(using("w", "a").on("n1"))],
        using("p", "b"),
        removed(kinds.CSI_NODE, "n1"),
    ),
    "a node without a volume limit is added": (
        [add(node("n1")), *FULL, add(using("w", "a").on("n1"))],
        using("p", "b"),
        add(node("n2")),
    ),
    "the volume of an attachment is deleted": (
        [add(node("n1")), *FULL, ATTACHED],
        using("p", "b"),
        removed(kinds.VOLUME, "va"),
    ),
    "a disk is freed by a pod in another namespace": (
        [add(node("n1"), A.namespace("blue").spec(volumes=[{"gcePersistentDisk": {"pdName": "d"}}]).on("n1"))],
        pod("p").spec(volumes=[{"gcePersistentDisk": {"pdName": "d"}}]),
        deleted("a", "blue"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_pod_is_scheduled_within_its_backoff_after(name: str) -> None:
    before, waiting, change = CASES[name]
    harness = Harness()
    for step in before:
        step(harness)
    harness.add(waiting)
    harness.run()
    harness.advance(FIRST_BACKOFF)
    own = waiting.manifest["metadata"]["name"]
    assert own not in harness.bound_order
    change(harness)
    harness.run()
    harness.advance(WITHIN)
    assert own in harness.bound_order, harness.pending_message(own)


# -- nominations -------------------------------------------------------------------------------------------------------


def preempting() -> Harness:
    """Return a cluster with `high` nominated to n1, where its victim is terminating; n2 is tainted."""
    harness = Harness()
    harness.graceful = True
    harness.add(node("n1", cpu="2"), node("n2", cpu="2").taint("closed"))
    harness.add(pod("low1").requests(cpu="2").on("n1"), pod("low2").requests(cpu="2").on("n2"))
    harness.add(pod("high").priority(10).requests(cpu="2"))
    harness.run()
    harness.advance(FIRST_BACKOFF)
    assert (harness.nominated("high"), harness.evicted()) == ("n1", ["low1"])
    return harness


def test_preemptor_is_retried_when_its_nominated_node_is_cordoned() -> None:
    harness = preempting()
    harness.add(node("n2", cpu="2"))
    harness.run()
    harness.advance(WITHIN)
    harness.add(node("n1", cpu="2").unschedulable())
    harness.run()
    harness.advance(WITHIN)
    assert (harness.nominated("high"), harness.evicted()) == ("n2", ["low1", "low2"])


def test_preemptor_is_retried_when_its_nominated_node_shrinks() -> None:
    harness = preempting()
    harness.add(node("n2", cpu="2"))
    harness.run()
    harness.advance(WITHIN)
    harness.add(node("n1", cpu="1"))
    harness.run()
    harness.advance(WITHIN)
    assert (harness.nominated("high"), harness.evicted()) == ("n2", ["low1", "low2"])


def test_preemptor_is_retried_when_its_nominated_node_is_deleted() -> None:
    harness = preempting()
    harness.add(node("n2", cpu="2"))
    harness.run()
    harness.advance(WITHIN)
    harness.delete_node("n1")
    harness.run()
    harness.advance(WITHIN)
    assert (harness.nominated("high"), harness.evicted()) == ("n2", ["low1", "low2"])


def never_fits(**requests: str) -> PodBuilder:
    """Return a pod nominated to n1 by another component, with a nodeSelector that no node has."""
    builder = pod("high").priority(10).label("app", "a").node_selector(never="x").nominated("n1")
    return builder.requests(**requests).spec(preemptionPolicy="Never")


@pytest.mark.parametrize(
    ("waiting", "changed"),
    [
        pytest.param(pod("p").requests(cpu="1"), never_fits(cpu="1"), id="the nominated pod shrinks"),
        pytest.param(
            pod("p").pod_anti_affinity(term("a")),
            never_fits(cpu="2").label("app", "b"),
            id="the nominated pod is relabelled",
        ),
        pytest.param(pod("p").requests(cpu="1"), never_fits(cpu="2").nominated(""), id="the nomination is cleared"),
    ],
)
def test_pod_rejected_because_of_a_nominated_pod_is_requeued_when(waiting: PodBuilder, changed: PodBuilder) -> None:
    harness = Harness()
    harness.add(node("n1", cpu="2"), never_fits(cpu="2"), waiting)
    harness.run()
    harness.advance(FIRST_BACKOFF)
    assert harness.assignments == {}
    harness.add(changed)
    harness.run()
    harness.advance(WITHIN)
    assert harness.assignments == {"p": "n1"}


def test_nominated_pod_counts_for_spreading_until_it_is_deleted() -> None:
    nominated = never_fits().label("app", "x")
    harness = Harness()
    harness.add(node("n1").zone("a"), node("n2").zone("b").unschedulable(), nominated, SPREAD)
    harness.run()
    harness.advance(FIRST_BACKOFF)
    harness.add(nominated.deleting())
    harness.run()
    harness.advance(WITHIN)
    assert harness.assignments == {}
    harness.delete_pod("high")
    harness.run()
    harness.advance(WITHIN)
    assert harness.assignments == {"p": "n1"}


def test_pod_is_requeued_when_a_failed_binding_frees_a_volume() -> None:
    harness = Harness()
    harness.add(node("n1"))
    for step in (
        stored(
            kinds.STORAGE_CLASS,
            "late",
            provisioner="kubernetes.io/no-provisioner",
            volumeBindingMode="WaitForFirstConsumer",
        ),
        volume("only"),
        claim("a"),
        claim("b"),
    ):
        step(harness)
    harness.complete_bindings = False
    harness.add(using("first", "a"))
    harness.run()
    harness.add(using("second", "b"))
    harness.run()
    harness.advance(FIRST_BACKOFF)
    assert harness.bound_order == ["first"]
    harness.delete_pod("first")
    harness.run()
    harness.advance(WITHIN)
    assert harness.bound_order == ["first", "second"]


def test_pod_with_affinity_is_scheduled_while_its_peer_is_in_pre_bind() -> None:
    harness = Harness()
    harness.add(node("n1"))
    LATE(harness)
    claim("a")(harness)
    harness.add(pod("p").pod_affinity(term("a")))
    harness.run()
    harness.advance(FIRST_BACKOFF)
    harness.add(using("slow", "a").label("app", "a"))
    harness.run()
    harness.advance(WITHIN)
    assert harness.assignments == {"p": "n1"}


def test_preemptor_is_requeued_by_a_node_that_is_added_during_its_evictions() -> None:
    harness = Harness()
    harness.complete_evictions = False
    harness.add(node("n1", cpu="2"), pod("low").requests(cpu="2").on("n1"))
    harness.add(pod("high").priority(10).requests(cpu="2"))
    harness.run()
    harness.advance(FIRST_BACKOFF)
    harness.add(node("n2", cpu="2"))
    harness.run()
    harness.advance(WITHIN)
    harness.add(pod("low").requests(cpu="2").on("n1").deleting())
    harness.run()
    harness.advance(WITHIN)
    assert harness.assignments["high"] == "n2"


# -- no needless attempts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(add(PEER.label("note", "x")), id="an unrelated label of a peer changes"),
        pytest.param(add(PEER.phase("Running")), id="a peer's status changes"),
        pytest.param(add(node("n1").unschedulable().annotation("heartbeat", "2")), id="a node is annotated"),
        pytest.param(namespace("blue", team="x"), id="an unrelated namespace is added"),
        pytest.param(volume("other"), id="an unrelated volume is added"),
        pytest.param(stored(kinds.STORAGE_CLASS, "other", provisioner="x"), id="an unrelated StorageClass is added"),
    ],
)
def test_no_pod_is_requeued_by_an_event_that_cannot_help(change: Change) -> None:
    harness = Harness()
    harness.add(node("n1").unschedulable(), PEER)
    for number in range(50):
        harness.add(
            pod(f"near-{number}").pod_affinity(term("none")), pod(f"apart-{number}").pod_anti_affinity(term("x"))
        )
        harness.add(using(f"claim-{number}", "missing"))
    harness.run()
    harness.advance(FIRST_BACKOFF)
    attempts = harness.machine.context.attempts
    change(harness)
    harness.run()
    harness.advance(WITHIN)
    assert harness.machine.context.attempts == attempts
