"""VolumeBinding after a node was selected: assumed objects, API writes and the wait for the binding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pyscheduler.api import (
    SKIP,
    SKIP_SIGNATURE_GROUP,
    ApiError,
    ApiWriter,
    Cycle,
    NodeInfo,
    PluginMetric,
    Pod,
    Rejection,
    StatusError,
)
from pyscheduler.intree import VolumeBinding
from pyscheduler.testing import PodBuilder, node

from .cluster import cycle, info
from .storage import KINDS, Cluster, Manifest, bound, claim, meta, spec, storage_class, using, volume, within

SELECTED = "volume.kubernetes.io/selected-node"
DONE = {"pv.kubernetes.io/bind-completed": "yes"}
TAKEN = Rejection("node(s) didn't find available persistent volumes to bind", resolvable=False)
STATIC = storage_class(provisioner="kubernetes.io/no-provisioner")


class VolumeApi(ApiWriter):
    """API client that stores objects and shows them on the watch. `later` is further changes, by second."""

    def __init__(self, cluster: Cluster, later: Mapping[int, Callable[[], None]] | None = None) -> None:
        self.written: list[tuple[str, Manifest]] = []
        self.seconds = 0
        self.shows = True
        self.refuses = ""
        self._cluster = cluster
        self.later = later or {}

    async def replace(self, path: str, body: Mapping[str, Any]) -> Manifest:
        if self.refuses and self.refuses in path:
            raise ApiError(409, "Conflict", f"{path} has been modified")
        taken = meta(dict(body), resourceVersion=str(10 + len(self.written)))
        self.written.append((path, taken))
        if self.shows:
            self._cluster.show(taken)
        return taken

    def timestamp(self) -> str:
        return "2026-01-01T00:00:00Z"

    def record(self, pod: Pod, reason: str, action: str, note: str) -> None:
        raise AssertionError("VolumeBinding records no Events")

    def observe(self, metric: PluginMetric, labels: tuple[str, ...] = (), value: float = 1) -> None:
        raise AssertionError("VolumeBinding has no metrics")

    async def sleep(self, seconds: float) -> None:
        assert seconds == 1.0
        self.seconds += 1
        self.later.get(self.seconds, lambda: None)()

    async def bind(self, pod: Pod, node_name: str) -> None:
        raise NotImplementedError

    async def get(self, path: str) -> Manifest:
        raise NotImplementedError

    async def create(self, path: str, body: Mapping[str, Any]) -> Manifest:
        raise NotImplementedError

    async def merge(self, path: str, patch: Mapping[str, Any]) -> Manifest:
        raise NotImplementedError

    async def delete(self, path: str) -> None:
        raise NotImplementedError


class Scenario:
    """A cluster, its VolumeBinding, and pods for node `a`."""

    def __init__(self, *objects: Manifest, timeout: int = 600) -> None:
        self.cluster = Cluster(*objects, nodes=[node("a").zone("z1"), node("b").zone("z2")])
        self.plugin = VolumeBinding(VolumeBinding.Args(bind_timeout_seconds=timeout), self.cluster.handle)

    def filter(self, incoming: PodBuilder) -> tuple[Cycle, Rejection | None]:
        """Filter the pod on node `a`; return the cycle and the rejection."""
        attempt, built = cycle(), incoming.build()
        assert self.plugin.pre_filter(attempt, built, self.cluster.state.table()) in (None, SKIP)
        return attempt, self.plugin.filter(attempt, built, self.a)

    @property
    def a(self) -> NodeInfo:
        return info(self.cluster.state.table(), "a")

    def reserve(self, incoming: PodBuilder) -> Cycle:
        attempt, rejection = self.filter(incoming)
        assert rejection is None
        self.cluster.state.place(incoming.build(), "a")
        assert self.plugin.reserve(attempt, incoming.build(), self.a) is None
        return attempt

    def seen(self, kind: str, name: str) -> Manifest:
        of = KINDS[kind]
        return self.cluster.handle.objects[of]["default" if of.namespaced else "", name]

    def finish(self, name: str = "data", to: str = "pv") -> None:
        """Bind the claim as the PV controller does."""
        of = self.seen("PersistentVolumeClaim", name)
        annotations = {**of["metadata"].get("annotations", {}), **DONE}
        self.cluster.show(spec(meta(of, annotations=annotations, resourceVersion="50"), volumeName=to))

    async def bind(self, attempt: Cycle, server: VolumeApi, incoming: PodBuilder) -> None:
        assert self.plugin.pre_bind_pre_flight(attempt, incoming.build(), "a") is None
        assert await self.plugin.pre_bind(attempt, incoming.build(), "a", server) is None


POD = using("data")


# -- assume cache -----------------------------------------------------------------------------------------------------


def test_assumed_volume_is_not_given_to_another_claim() -> None:
    scenario = Scenario(claim(), claim("other"), volume(), STATIC)
    attempt = scenario.reserve(POD)
    assert scenario.filter(using("other", name="rival"))[1] == TAKEN
    scenario.plugin.unreserve(attempt, POD.build(), "a")
    assert scenario.filter(using("other", name="rival"))[1] is None


def test_smallest_volume_is_assumed() -> None:
    scenario = Scenario(claim(), claim("other", "2Gi"), volume("large", "2Gi"), volume("small"), STATIC)
    scenario.reserve(POD)
    assert scenario.filter(using("other", name="rival"))[1] is None


def test_claim_under_provisioning_keeps_selected_node() -> None:
    scenario = Scenario(claim(), storage_class())
    attempt = scenario.reserve(POD)
    rival, b = cycle(), info(scenario.cluster.state.table(), "b")
    incoming = using("data", name="rival").build()
    assert scenario.plugin.pre_filter(rival, incoming, scenario.cluster.state.table()) is None
    assert [scenario.plugin.filter(rival, incoming, n) for n in (scenario.a, b)] == [None, TAKEN]
    scenario.plugin.unreserve(attempt, POD.build(), "a")
    scenario.plugin.pre_filter(rival, incoming, scenario.cluster.state.table())
    assert scenario.plugin.filter(rival, incoming, b) is None


def test_newer_object_on_watch_replaces_assumed_one() -> None:
    scenario = Scenario(claim(), claim("other"), volume(), STATIC)
    attempt = scenario.reserve(POD)
    scenario.cluster.show(meta(volume(), resourceVersion="2"))
    assert scenario.filter(using("other", name="rival"))[1] is None
    scenario.reserve(using("other", name="rival"))
    # Unreserve of the first pod must not drop what was assumed for the second one since.
    scenario.plugin.unreserve(attempt, POD.build(), "a")
    assert scenario.filter(POD)[1] == TAKEN


def test_pre_bind_is_skipped_if_claims_are_bound() -> None:
    scenario = Scenario(bound("pv"), volume())
    attempt = scenario.reserve(POD)
    assert scenario.plugin.pre_bind_pre_flight(attempt, POD.build(), "a") is SKIP
    scenario.plugin.unreserve(attempt, POD.build(), "a")


async def test_a_pod_without_claims_passes_through_every_point() -> None:
    scenario, attempt, plain = Scenario(), cycle(), using().build()
    assert scenario.plugin.pre_filter(attempt, plain, scenario.cluster.state.table()) is SKIP_SIGNATURE_GROUP
    assert scenario.plugin.reserve(attempt, plain, scenario.a) is None
    assert scenario.plugin.pre_bind_pre_flight(attempt, plain, "a") is SKIP
    assert await scenario.plugin.pre_bind(attempt, plain, "a", VolumeApi(scenario.cluster)) is None
    scenario.plugin.unreserve(attempt, plain, "a")


# -- API writes -------------------------------------------------------------------------------------------------------


async def test_a_volume_is_bound_to_its_claim() -> None:
    scenario = Scenario(meta(claim(), resourceVersion="7"), volume(), STATIC)
    server = VolumeApi(scenario.cluster, {3: scenario.finish})
    await scenario.bind(scenario.reserve(POD), server, POD)
    ((path, written),) = server.written
    assert path == "/api/v1/persistentvolumes/pv"
    assert written["apiVersion"] == "v1"
    assert written["spec"]["claimRef"] == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "data",
        "uid": "uid-data",
        "resourceVersion": "7",
    }
    assert written["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert written["spec"]["capacity"] == {"storage": "1Gi"}
    assert server.seconds == 3


@pytest.mark.parametrize("uid", ["", "uid-data"])
async def test_prebound_volume_gets_no_bound_by_controller_annotation(uid: str) -> None:
    cached = volume(claimRef={"namespace": "default", "name": "data", **({"uid": uid} if uid else {})})
    scenario = Scenario(claim(), cached, STATIC)
    server = VolumeApi(scenario.cluster, {1: scenario.finish})
    await scenario.bind(scenario.reserve(POD), server, POD)
    ((_, written),) = server.written
    assert written["spec"]["claimRef"]["uid"] == "uid-data"
    assert "annotations" not in written["metadata"]


async def test_selected_node_is_written_and_provisioner_binds_claim() -> None:
    scenario = Scenario(meta(claim(), annotations={"note": "cached"}), storage_class())
    made = volume("made", nodeAffinity=within("z1"), claimRef={"name": "data", "uid": "uid-data"})
    server = VolumeApi(
        scenario.cluster, {2: lambda: scenario.finish(to="made"), 4: lambda: scenario.cluster.show(made)}
    )
    await scenario.bind(scenario.reserve(POD), server, POD)
    ((path, written),) = server.written
    assert path == "/api/v1/namespaces/default/persistentvolumeclaims/data"
    assert written["metadata"]["annotations"] == {"note": "cached", SELECTED: "a"}
    # From second 2 the claim names a volume that the watch has not shown yet.
    assert server.seconds == 4


async def test_pre_bind_waits_for_every_claim() -> None:
    scenario = Scenario(claim("x"), claim("y", "9Gi"), volume(), storage_class())
    incoming = using("x", "y")
    later = {
        2: lambda: scenario.finish("x"),
        3: lambda: scenario.cluster.show(volume("made")),
        5: lambda: scenario.finish("y", "made"),
    }
    server = VolumeApi(scenario.cluster, later)
    await scenario.bind(scenario.reserve(incoming), server, incoming)
    assert [path.rsplit("/", 2)[1:] for path, _ in server.written] == [
        ["persistentvolumes", "pv"],
        ["persistentvolumeclaims", "y"],
    ]
    assert server.seconds == 5


@pytest.mark.parametrize("class_of_volume", ["late", "other"], ids=["of the volume", "of the claim"])
async def test_outdated_object_on_watch_is_ignored(class_of_volume: str) -> None:
    scenario = Scenario(claim(), storage_class(), volume("made", storage_class=class_of_volume))
    server = VolumeApi(scenario.cluster)
    server.shows = False
    attempt = scenario.reserve(POD)

    def show() -> None:
        scenario.cluster.show(server.written[0][1])
        scenario.finish(to="made")

    server.later = {3: show}
    await scenario.bind(attempt, server, POD)
    assert server.seconds == 3


async def test_api_error_ends_pre_bind_and_written_objects_stay() -> None:
    scenario = Scenario(claim("x"), claim("y", "9Gi", "made"), claim("z"), volume(), STATIC, storage_class("made"))
    incoming = using("x", "y")
    attempt, server = scenario.reserve(incoming), VolumeApi(scenario.cluster)
    server.refuses, server.shows = "persistentvolumeclaims/y", False
    with pytest.raises(ApiError, match="has been modified"):
        await scenario.plugin.pre_bind(attempt, incoming.build(), "a", server)
    assert server.seconds == 0
    scenario.plugin.unreserve(attempt, incoming.build(), "a")
    # The API server has bound the volume to x, although the watch has not shown it; y can go anywhere again.
    assert scenario.filter(using("z", name="rival"))[1] == TAKEN
    rival, other = cycle(), using("y", name="other").build()
    assert scenario.plugin.pre_filter(rival, other, scenario.cluster.state.table()) is None
    assert [scenario.plugin.filter(rival, other, n) for n in scenario.cluster.state.table()] == [None, None]


# -- errors while waiting ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [0, 1, 600])
async def test_pre_bind_times_out(timeout: int) -> None:
    scenario = Scenario(claim(), storage_class(), timeout=timeout)
    attempt, server = scenario.reserve(POD), VolumeApi(scenario.cluster)
    with pytest.raises(StatusError) as caught:
        await scenario.bind(attempt, server, POD)
    assert str(caught.value) == "binding volumes: context deadline exceeded"
    assert server.seconds == timeout
    assert len(server.written) == 1


Change = Callable[[Scenario], None]


def show(change: Callable[[Scenario], Manifest]) -> Change:
    return lambda scenario: scenario.cluster.show(change(scenario))


def of_claim(change: Callable[[Manifest], Manifest]) -> Change:
    """Return the claim as the watch shows it, changed."""
    return show(lambda scenario: change(meta(scenario.seen("PersistentVolumeClaim", "data"), resourceVersion="40")))


def of_volume(change: Callable[[Manifest], Manifest]) -> Change:
    return show(lambda scenario: change(meta(scenario.seen("PersistentVolume", "pv"), resourceVersion="40")))


NODE_GONE = pytest.param(
    lambda scenario: scenario.cluster.state.remove_node("a"),
    'failed to get node "a": node "a" not found',
    id="node gone",
)
POD_GONE = pytest.param(
    lambda scenario: scenario.cluster.state.remove("pod"),
    'pod does not exist any more: pod "pod" not found',
    id="pod gone",
)


async def fails(scenario: Scenario, change: Change) -> str:
    """Return the error of the wait if the change happens in second 2."""
    attempt, server = scenario.reserve(POD), VolumeApi(scenario.cluster, {2: lambda: change(scenario)})
    with pytest.raises(StatusError) as caught:
        await scenario.bind(attempt, server, POD)
    assert server.seconds == 2
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        NODE_GONE,
        POD_GONE,
        pytest.param(
            lambda scenario: scenario.cluster.hide(claim()),
            'failed to check provisioning pvc: persistentvolumeclaims "default/data" not found',
            id="claim gone",
        ),
        pytest.param(
            of_claim(lambda c: meta(c, annotations=None)), 'selectedNode annotation reset for PVC "data"', id="reset"
        ),
        pytest.param(
            of_claim(lambda c: meta(c, annotations={"x": "y"})),
            'provisioning failed for PVC "data"',
            id="annotation removed",
        ),
        pytest.param(
            of_claim(lambda c: meta(c, annotations={SELECTED: "b"})),
            'provisioning failed for PVC "data"',
            id="other node selected",
        ),
        pytest.param(
            of_claim(lambda c: spec(c, volumeName="far")),
            'pv "far" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
            id="provisioned volume is inaccessible",
        ),
    ],
)
async def test_errors_while_waiting_for_provisioner(change: Change, why: str) -> None:
    far = volume("far", storage_class="x", nodeAffinity=within("z2"))
    assert await fails(Scenario(claim(), storage_class(), far), change) == f"binding volumes: {why}"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        NODE_GONE,
        POD_GONE,
        pytest.param(
            lambda scenario: scenario.cluster.hide(volume()),
            'failed to check binding: persistentvolumes "pv" not found',
            id="volume gone",
        ),
        pytest.param(
            lambda scenario: scenario.cluster.hide(claim()),
            'failed to check binding: persistentvolumeclaims "default/data" not found',
            id="claim gone",
        ),
        pytest.param(
            of_volume(lambda v: spec(v, claimRef=None)), 'ClaimRef got reset for pv "pv"', id="claimRef removed"
        ),
        pytest.param(
            of_volume(lambda v: spec(v, claimRef={"name": "data"})), 'ClaimRef got reset for pv "pv"', id="uid reset"
        ),
        pytest.param(
            of_volume(lambda v: spec(v, nodeAffinity=within("z2"))),
            'pv "pv" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
            id="volume becomes inaccessible",
        ),
        pytest.param(
            lambda scenario: scenario.cluster.state.set_node(node("a").zone("z3").build()),
            'pv "pv" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
            id="the node's labels changed",
        ),
    ],
)
async def test_errors_while_waiting_for_pv_controller(change: Change, why: str) -> None:
    here = volume(nodeAffinity=within("z1"))
    assert await fails(Scenario(claim(), STATIC, here), change) == f"binding volumes: {why}"
