"""assert_cache_agrees detects declarations of less than a plugin reads, by the change that they leave out."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import pytest

from pyscheduler.api import (
    Cycle,
    FilterPlugin,
    NodeFields,
    NodeInfo,
    NodeTable,
    Pod,
    PodSignatureGroup,
    PreFilterPlugin,
    Reads,
    Rejection,
    ResourceKind,
    ScorePlugin,
)
from pyscheduler.testing import Harness, NodeBuilder, PodBuilder, assert_cache_agrees, node, pod

LIMITS = ResourceKind("example.com", "v1", "limits", "Limit", namespaced=False)


class TwoPods(FilterPlugin):
    """Two pods on a node at most."""

    name = "TwoPods"
    reads = Reads.OWN_NODE_AND_PODS

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return Rejection("node(s) had two pods") if len(node.pods) >= 2 else None


class TwoPodsOfOwnNode(TwoPods):
    """Declares that it does not read the pods on the node."""

    reads = Reads.OWN_NODE


class FewestPods(ScorePlugin):
    """The fewer pods are on a node, the better."""

    name = "FewestPods"
    reads = Reads.OWN_NODE_AND_PODS

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return 100 - len(node.pods)


class FewestPodsOfOwnNode(FewestPods):
    """Declares that it does not read the pods on the node."""

    reads = Reads.OWN_NODE


class Open(FilterPlugin):
    """Only nodes with a label that is open."""

    name = "Open"
    reads = Reads.OWN_NODE
    node_fields = NodeFields.LABELS

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return None if node.labels.get("state") == "open" else Rejection("node(s) were not open")


class OpenByImages(Open):
    """Declares that it reads the images on nodes instead of their labels."""

    node_fields = NodeFields.IMAGES


class SameTeam(FilterPlugin):
    """Only nodes of the team that the pod's label names."""

    name = "SameTeam"
    reads = Reads.OWN_NODE

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return None if node.labels.get("team") == pod.labels.get("team") else Rejection("node(s) had another team")


class SameTeamWithoutLabels(SameTeam):
    """Declares that it does not read the pod's labels."""

    reads_labels = False


class ByImage(ScorePlugin):
    """Nodes with the label of the pod's first image are best."""

    name = "ByImage"
    reads = Reads.OWN_NODE

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return 100 if node.labels.get("image") == pod.spec.containers[0].image else 0


class ByImageSignedAlike(ByImage):
    """Declares that it reads nothing of a pod's template."""

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        return ()


class ByName(ScorePlugin):
    """The pod of the node's name prefers the node."""

    name = "ByName"
    reads = Reads.OWN_NODE
    reads_identity = True

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return 100 if pod.name == node.name else 0


class ByNameCached(ByName):
    """Declares that it does not read the pod's name."""

    reads_identity = False


class Limited(PreFilterPlugin):
    """No pods as long as there is a Limit."""

    name = "Limited"
    watches = (LIMITS,)
    reads = Reads.EVERYTHING

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Rejection | None:
        return Rejection("there was a limit") if self.handle.objects[LIMITS] else None


class LimitedByNodes(Limited):
    """Declares that it reads nodes only."""

    reads = Reads.ALL_NODES


class Keyed(ScorePlugin):
    """The number of Limits is the score."""

    name = "Keyed"
    watches = (LIMITS,)
    reads = Reads.OWN_NODE
    has_score_key = True

    def score_cache_key(self, cycle: Cycle) -> Hashable:
        return len(self.handle.objects[LIMITS])

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return len(self.handle.objects[LIMITS])


class WrongKey(Keyed):
    """Has a key that does not change."""

    def score_cache_key(self, cycle: Cycle) -> Hashable:
        return ()


Change = Callable[[Harness], None]


def put(*objects: NodeBuilder | PodBuilder) -> Change:
    return lambda harness: harness.add(*objects)


def limit(harness: Harness) -> None:
    harness.add_object(LIMITS, {"metadata": {"name": "limit"}})


def nothing(harness: Harness) -> None: ...


PODS_ON_N1 = put(*(pod(f"running-{i}").on("n1") for i in range(2)))
OPENED_N1 = put(node("n1").label("state", "open"))
RED = pod("a").label("team", "red")
FIRST, SECOND = pod("a").image("first"), pod("a").image("second")
STORIES = {
    "reads": (TwoPods, TwoPodsOfOwnNode, PODS_ON_N1, [pod("a")], "the Filter status of n1 is Success"),
    "reads of scores": (FewestPods, FewestPodsOfOwnNode, PODS_ON_N1, [pod("a")], "the total score of n1"),
    "node_fields": (
        Open,
        OpenByImages,
        put(node("n1").label("state", "open")),
        [pod("a")],
        "n1 is Unschedulable, Open: node",
    ),
    "reads_labels": (SameTeam, SameTeamWithoutLabels, nothing, [pod("b"), RED], "the Filter status of n0 is Success"),
    "sign_group": (ByImage, ByImageSignedAlike, nothing, [FIRST, SECOND], "the total score of n0"),
    "reads_identity": (ByName, ByNameCached, nothing, [pod("n0"), pod("n1")], "the total score of n0"),
    "score_cache_key": (Keyed, WrongKey, limit, [pod("a")], "the total score of n0"),
    "reads of PreFilter": (Limited, LimitedByNodes, limit, [pod("a")], "PreFilter's result is Success in the cache"),
}


@pytest.fixture(params=[3, 30], ids=["few nodes", "many nodes"])
def nodes(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def story(plugin: type, change: Change, pods: list[PodBuilder], nodes: int) -> None:
    """Check the pods before and after a change."""
    harness = Harness(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        f"- plugins: {{multiPoint: {{enabled: [{{name: '{__name__}:{plugin.__name__}'}}]}}}}\n"
    )
    harness.add(node("n0").label("image", "first"), *(node(f"n{i}") for i in range(1, nodes)))
    assert_cache_agrees(harness, *pods)
    change(harness)
    assert_cache_agrees(harness, *pods)


RIGHT = [pytest.param(right, *rest[:-1], id=name) for name, (right, _, *rest) in STORIES.items()]
WRONG = [pytest.param(wrong, *rest, id=name) for name, (_, wrong, *rest) in STORIES.items()]


@pytest.mark.parametrize(("plugin", "change", "pods", "message"), WRONG)
def test_stale_result_is_named_if_a_declaration_is_too_narrow(
    plugin: type, change: Change, pods: list[PodBuilder], message: str, nodes: int
) -> None:
    with pytest.raises(AssertionError, match=message):
        story(plugin, change, pods, nodes)


@pytest.mark.parametrize(("plugin", "change", "pods"), RIGHT)
def test_complete_declarations_pass(plugin: type, change: Change, pods: list[PodBuilder], nodes: int) -> None:
    story(plugin, change, pods, nodes)


def test_pod_of_an_unknown_profile_is_an_error() -> None:
    harness = Harness()
    harness.add(node("n1"))
    with pytest.raises(ValueError, match="pod default/a: schedulerName other: there is no such profile"):
        assert_cache_agrees(harness, pod("a").scheduler("other"))


@pytest.mark.parametrize("reads", [Reads.OWN_NODE_AND_PODS, Reads.DOMAINS, Reads.EVERYTHING])
def test_cluster_without_nodes_passes(monkeypatch: pytest.MonkeyPatch, reads: Reads, nodes: int) -> None:
    monkeypatch.setattr(TwoPods, "reads", reads)

    def delete_all(harness: Harness) -> None:
        PODS_ON_N1(harness)
        assert_cache_agrees(harness, pod("a"))
        for i in range(nodes):
            harness.delete("Node", f"n{i}")

    story(TwoPods, delete_all, [pod("a")], nodes)
