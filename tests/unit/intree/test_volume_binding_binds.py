"""VolumeBinding after a node was chosen: what it takes for granted, what it writes, and how long it waits."""

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
    """Takes objects, and lets the watch show them. `later` is what else happens, by second."""

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


class Story:
    """One cluster, its VolumeBinding, and pods on their way to node `a`."""

    def __init__(self, *objects: Manifest, timeout: int = 600) -> None:
        self.cluster = Cluster(*objects, nodes=[node("a").zone("z1"), node("b").zone("z2")])
        self.plugin = VolumeBinding(VolumeBinding.Args(bind_timeout_seconds=timeout), self.cluster)

    def ask(self, incoming: PodBuilder) -> tuple[Cycle, Rejection | None]:
        """Whether the pod would fit node `a`."""
        attempt, asked = cycle(), incoming.build()
        assert self.plugin.pre_filter(attempt, asked, self.cluster.nodes()) in (None, SKIP)
        return attempt, self.plugin.filter(attempt, asked, self.a)

    @property
    def a(self) -> NodeInfo:
        return info(self.cluster.nodes(), "a")

    def reserve(self, incoming: PodBuilder) -> Cycle:
        attempt, refusal = self.ask(incoming)
        assert refusal is None
        self.cluster.state.place(incoming.build(), "a")
        assert self.plugin.reserve(attempt, incoming.build(), self.a) is None
        return attempt

    def seen(self, kind: str, name: str) -> Manifest:
        of = KINDS[kind]
        return self.cluster.objects(of)["default" if of.namespaced else "", name]

    def finish(self, name: str = "data", to: str = "pv") -> None:
        """The volume controller has bound the claim."""
        of = self.seen("PersistentVolumeClaim", name)
        annotations = {**of["metadata"].get("annotations", {}), **DONE}
        self.cluster.show(spec(meta(of, annotations=annotations, resourceVersion="50"), volumeName=to))

    async def bind(self, attempt: Cycle, server: VolumeApi, incoming: PodBuilder) -> None:
        assert self.plugin.pre_bind_pre_flight(attempt, incoming.build(), "a") is None
        assert await self.plugin.pre_bind(attempt, incoming.build(), "a", server) is None


POD = using("data")


# -- what is taken for granted -----------------------------------------------------------------------------------------


def test_a_volume_that_is_promised_is_nobody_elses() -> None:
    story = Story(claim(), claim("other"), volume(), STATIC)
    attempt = story.reserve(POD)
    assert story.ask(using("other", name="rival"))[1] == TAKEN
    story.plugin.unreserve(attempt, POD.build(), "a")
    assert story.ask(using("other", name="rival"))[1] is None


def test_the_smallest_volume_is_promised() -> None:
    story = Story(claim(), claim("other", "2Gi"), volume("large", "2Gi"), volume("small"), STATIC)
    story.reserve(POD)
    assert story.ask(using("other", name="rival"))[1] is None


def test_a_claim_that_is_being_provisioned_keeps_its_node() -> None:
    story = Story(claim(), storage_class())
    attempt = story.reserve(POD)
    rival, b = cycle(), info(story.cluster.nodes(), "b")
    incoming = using("data", name="rival").build()
    assert story.plugin.pre_filter(rival, incoming, story.cluster.nodes()) is None
    assert [story.plugin.filter(rival, incoming, n) for n in (story.a, b)] == [None, TAKEN]
    story.plugin.unreserve(attempt, POD.build(), "a")
    story.plugin.pre_filter(rival, incoming, story.cluster.nodes())
    assert story.plugin.filter(rival, incoming, b) is None


def test_what_the_watch_shows_anew_goes_before_what_was_assumed() -> None:
    story = Story(claim(), claim("other"), volume(), STATIC)
    attempt = story.reserve(POD)
    story.cluster.show(meta(volume(), resourceVersion="2"))
    assert story.ask(using("other", name="rival"))[1] is None
    story.reserve(using("other", name="rival"))
    # The first pod's end must not undo what the second one was promised since.
    story.plugin.unreserve(attempt, POD.build(), "a")
    assert story.ask(POD)[1] == TAKEN


def test_a_pod_whose_claims_are_bound_has_nothing_to_wait_for() -> None:
    story = Story(bound("pv"), volume())
    attempt = story.reserve(POD)
    assert story.plugin.pre_bind_pre_flight(attempt, POD.build(), "a") is SKIP
    story.plugin.unreserve(attempt, POD.build(), "a")


async def test_a_pod_without_claims_passes_through_every_point() -> None:
    story, attempt, plain = Story(), cycle(), using().build()
    assert story.plugin.pre_filter(attempt, plain, story.cluster.nodes()) is SKIP_SIGNATURE_GROUP
    assert story.plugin.reserve(attempt, plain, story.a) is None
    assert story.plugin.pre_bind_pre_flight(attempt, plain, "a") is SKIP
    assert await story.plugin.pre_bind(attempt, plain, "a", VolumeApi(story.cluster)) is None
    story.plugin.unreserve(attempt, plain, "a")


# -- what is written ---------------------------------------------------------------------------------------------------


async def test_a_volume_is_bound_to_its_claim() -> None:
    story = Story(meta(claim(), resourceVersion="7"), volume(), STATIC)
    server = VolumeApi(story.cluster, {3: story.finish})
    await story.bind(story.reserve(POD), server, POD)
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
async def test_a_volume_that_was_kept_for_the_claim_stays_its_owners_doing(uid: str) -> None:
    kept = volume(claimRef={"namespace": "default", "name": "data", **({"uid": uid} if uid else {})})
    story = Story(claim(), kept, STATIC)
    server = VolumeApi(story.cluster, {1: story.finish})
    await story.bind(story.reserve(POD), server, POD)
    ((_, written),) = server.written
    assert written["spec"]["claimRef"]["uid"] == "uid-data"
    assert "annotations" not in written["metadata"]


async def test_a_claim_is_told_its_node_and_the_rest_is_up_to_the_provisioner() -> None:
    story = Story(meta(claim(), annotations={"note": "kept"}), storage_class())
    made = volume("made", nodeAffinity=within("z1"), claimRef={"name": "data", "uid": "uid-data"})
    server = VolumeApi(story.cluster, {2: lambda: story.finish(to="made"), 4: lambda: story.cluster.show(made)})
    await story.bind(story.reserve(POD), server, POD)
    ((path, written),) = server.written
    assert path == "/api/v1/namespaces/default/persistentvolumeclaims/data"
    assert written["metadata"]["annotations"] == {"note": "kept", SELECTED: "a"}
    # From second 2 the claim names a volume that the watch has not shown yet.
    assert server.seconds == 4


async def test_every_claim_of_the_pod_is_waited_for() -> None:
    story = Story(claim("x"), claim("y", "9Gi"), volume(), storage_class())
    incoming = using("x", "y")
    later = {
        2: lambda: story.finish("x"),
        3: lambda: story.cluster.show(volume("made")),
        5: lambda: story.finish("y", "made"),
    }
    server = VolumeApi(story.cluster, later)
    await story.bind(story.reserve(incoming), server, incoming)
    assert [path.rsplit("/", 2)[1:] for path, _ in server.written] == [
        ["persistentvolumes", "pv"],
        ["persistentvolumeclaims", "y"],
    ]
    assert server.seconds == 5


@pytest.mark.parametrize("class_of_volume", ["late", "other"], ids=["of the volume", "of the claim"])
async def test_an_old_version_on_the_watch_says_nothing(class_of_volume: str) -> None:
    story = Story(claim(), storage_class(), volume("made", storage_class=class_of_volume))
    server = VolumeApi(story.cluster)
    server.shows = False
    attempt = story.reserve(POD)

    def show() -> None:
        story.cluster.show(server.written[0][1])
        story.finish(to="made")

    server.later = {3: show}
    await story.bind(attempt, server, POD)
    assert server.seconds == 3


async def test_a_refusal_is_the_end_of_it_and_only_what_was_written_stays() -> None:
    story = Story(claim("x"), claim("y", "9Gi", "made"), claim("z"), volume(), STATIC, storage_class("made"))
    incoming = using("x", "y")
    attempt, server = story.reserve(incoming), VolumeApi(story.cluster)
    server.refuses, server.shows = "persistentvolumeclaims/y", False
    with pytest.raises(ApiError, match="has been modified"):
        await story.plugin.pre_bind(attempt, incoming.build(), "a", server)
    assert server.seconds == 0
    story.plugin.unreserve(attempt, incoming.build(), "a")
    # The server has bound the volume to x, although the watch has not shown it; y can go anywhere again.
    assert story.ask(using("z", name="rival"))[1] == TAKEN
    rival, other = cycle(), using("y", name="other").build()
    assert story.plugin.pre_filter(rival, other, story.cluster.nodes()) is None
    assert [story.plugin.filter(rival, other, n) for n in story.cluster.nodes()] == [None, None]


# -- what ends the wait ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [0, 1, 600])
async def test_waiting_ends_when_the_time_is_up(timeout: int) -> None:
    story = Story(claim(), storage_class(), timeout=timeout)
    attempt, server = story.reserve(POD), VolumeApi(story.cluster)
    with pytest.raises(StatusError) as caught:
        await story.bind(attempt, server, POD)
    assert str(caught.value) == "binding volumes: context deadline exceeded"
    assert server.seconds == timeout
    assert len(server.written) == 1


Change = Callable[[Story], None]


def show(change: Callable[[Story], Manifest]) -> Change:
    return lambda story: story.cluster.show(change(story))


def of_claim(change: Callable[[Manifest], Manifest]) -> Change:
    """The claim as the watch shows it, changed."""
    return show(lambda story: change(meta(story.seen("PersistentVolumeClaim", "data"), resourceVersion="40")))


def of_volume(change: Callable[[Manifest], Manifest]) -> Change:
    return show(lambda story: change(meta(story.seen("PersistentVolume", "pv"), resourceVersion="40")))


NODE_GONE = pytest.param(
    lambda story: story.cluster.state.remove_node("a"), 'failed to get node "a": node "a" not found', id="node gone"
)
POD_GONE = pytest.param(
    lambda story: story.cluster.state.remove("pod"), 'pod does not exist any more: pod "pod" not found', id="pod gone"
)


async def fails(story: Story, change: Change) -> str:
    """How the wait ends when this happens in second 2."""
    attempt, server = story.reserve(POD), VolumeApi(story.cluster, {2: lambda: change(story)})
    with pytest.raises(StatusError) as caught:
        await story.bind(attempt, server, POD)
    assert server.seconds == 2
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        NODE_GONE,
        POD_GONE,
        pytest.param(
            lambda story: story.cluster.hide(claim()),
            'failed to check provisioning pvc: persistentvolumeclaims "default/data" not found',
            id="claim gone",
        ),
        pytest.param(
            of_claim(lambda c: meta(c, annotations=None)), 'selectedNode annotation reset for PVC "data"', id="reset"
        ),
        pytest.param(
            of_claim(lambda c: meta(c, annotations={"x": "y"})), 'provisioning failed for PVC "data"', id="given up"
        ),
        pytest.param(
            of_claim(lambda c: meta(c, annotations={SELECTED: "b"})),
            'provisioning failed for PVC "data"',
            id="sent elsewhere",
        ),
        pytest.param(
            of_claim(lambda c: spec(c, volumeName="far")),
            'pv "far" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
            id="made where the node cannot reach it",
        ),
    ],
)
async def test_what_ends_the_wait_for_a_provisioner(change: Change, why: str) -> None:
    far = volume("far", storage_class="x", nodeAffinity=within("z2"))
    assert await fails(Story(claim(), storage_class(), far), change) == f"binding volumes: {why}"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        NODE_GONE,
        POD_GONE,
        pytest.param(
            lambda story: story.cluster.hide(volume()),
            'failed to check binding: persistentvolumes "pv" not found',
            id="volume gone",
        ),
        pytest.param(
            lambda story: story.cluster.hide(claim()),
            'failed to check binding: persistentvolumeclaims "default/data" not found',
            id="claim gone",
        ),
        pytest.param(of_volume(lambda v: spec(v, claimRef=None)), 'ClaimRef got reset for pv "pv"', id="let go"),
        pytest.param(
            of_volume(lambda v: spec(v, claimRef={"name": "data"})), 'ClaimRef got reset for pv "pv"', id="uid reset"
        ),
        pytest.param(
            of_volume(lambda v: spec(v, nodeAffinity=within("z2"))),
            'pv "pv" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
            id="out of reach",
        ),
        pytest.param(
            lambda story: story.cluster.state.set_node(node("a").zone("z3").build()),
            'pv "pv" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
            id="the node's labels changed",
        ),
    ],
)
async def test_what_ends_the_wait_for_the_volume_controller(change: Change, why: str) -> None:
    here = volume(nodeAffinity=within("z1"))
    assert await fails(Story(claim(), STATIC, here), change) == f"binding volumes: {why}"
