"""A scheduler with the result cache and one without return equal commands for equal events.

The planted bugs are the kinds of bugs that a cache may have: a change that it misses, a difference between two pods
that it ignores, a declaration of a plugin that is too narrow. They are planted beside the cache, not in it, so that
they do not depend on how it works.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import SKIP_SIGNATURE_GROUP, FilterPlugin, NodeFields, Pod, Reads, ScorePlugin, Skip
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.result_cache.equivalence_cache import EquivalenceCache
from pyscheduler.core.result_cache.node_classes import NodeClasses
from pyscheduler.core.result_cache.row_scores import TopScores
from pyscheduler.core.scheduling import node_order, schedule_pod
from pyscheduler.core.scheduling.profile_runtime import ProfileRuntime
from pyscheduler.core.state import ClusterState
from pyscheduler.core.state.node_columns import ChangeLog
from pyscheduler.core.state.placed import PlacedPods
from pyscheduler.intree import (
    ImageLocality,
    InterPodAffinity,
    NodeAffinity,
    NodeDeclaredFeatures,
    NodePorts,
    NodeResourcesFit,
    NodeUnschedulable,
    PodTopologySpread,
    TaintToleration,
    VolumeBinding,
)
from tests.properties import probe_plugins
from tests.properties.probe_plugins import (
    ClaimReader,
    NameReader,
    ObjectReader,
    PodLimit,
    TeamCpu,
    TeamPreference,
    TeamRank,
    TeamScore,
    TeamShare,
)
from tests.properties.profiles import assert_caught, quick
from tests.properties.result_cache_pair import SchedulerPair
from tests.properties.sample_objects import AFFINITY_KINDS, BASIC_KINDS, CLAIM_KINDS, CONSTRAINED_KINDS, POD_KINDS
from tests.properties.state_steps import Step, a_step, scripts, steps

Story = tuple[list[Step], list[list[Step]]]
Plant = Callable[[pytest.MonkeyPatch], None]

PODS = ("running", "delete", "delete", "mark", "relabel", "give_up", "give_up")
NODES = ("node", "node", "drop")
NOMINATIONS = ("nominee", "urgent", "give_up", "delete")
ALL = (*PODS, *NODES, *NOMINATIONS, "object", "object", "time")
ALL_KINDS = range(POD_KINDS)
ATTEMPTS = st.lists(a_step("pod"), min_size=1, max_size=3)


def stories(changes: Sequence[str] = ALL, kinds: Sequence[int] = ALL_KINDS) -> st.SearchStrategy[Story]:
    """Generate a cluster, and changes with attempts after them.

    Few changes between attempts, so that one change cannot hide that another was missed.
    """
    fleet: list[Step] = [("many", 0, 0, 0), *(("running", 0, 5 * i, i) for i in range(6))]
    uniform: list[Step] = [("node", 0, (12, 18)[i % 2], i) for i in range(8)]
    volumes_in_one_zone: list[Step] = [("object", 2, 0, 1)]
    fleets = [fleet, [("many", 0, 0, 6)], uniform + volumes_in_one_zone, uniform[:2]]
    few = st.lists(st.sampled_from(kinds), min_size=1, max_size=4)
    rounds = st.tuples(steps(*changes, longest=2), ATTEMPTS).map(lambda both: both[0] + both[1])
    return st.tuples(st.sampled_from(fleets), st.tuples(few, scripts(rounds, longest=20)).map(_of_kinds))


def _of_kinds(drawn: tuple[list[int], list[list[Step]]]) -> list[list[Step]]:
    """Limit the pods to these kinds, so that signatures recur."""
    kinds, rounds = drawn
    created = ("pod", "running", "nominee", "urgent")
    return [
        [(what, n, kinds[kind % len(kinds)] if what in created else kind, where) for what, n, kind, where in steps]
        for steps in rounds
    ]


def property_for(
    plugins: str = "", order: str = "EveryNode", outcomes: Counter[str] | None = None
) -> Callable[[Story], None]:
    """Return the property for the default plugins and these; commands are counted in `outcomes`."""

    def check(story: Story) -> None:
        fleet, rounds = story
        pair = SchedulerPair(plugins, order)
        for step in (*fleet, *chain.from_iterable(rounds)):
            pair.do(step)
        if outcomes is not None:
            outcomes.update(pair.outcomes)

    return check


def _probes(*classes: type[Any]) -> str:
    return " ".join(f"{probe_plugins.__name__}:{cls.__name__}" for cls in classes)


def test_commands_are_equal_without_the_result_cache() -> None:
    outcomes: Counter[str] = Counter()
    quick(60)(given(stories())(property_for(outcomes=outcomes)))()
    assert all(outcomes[what] >= 5 for what in ("bind", "FailedScheduling", "evict")), outcomes


def test_commands_are_equal_without_the_result_cache_in_the_order_of_kube_scheduler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node_order, "MIN_FEASIBLE_NODES", 2)  # samples of clusters that are small
    quick(30)(given(stories())(property_for(order="KubeScheduler")))()


def test_commands_are_equal_without_the_result_cache_for_plugins_of_every_kind() -> None:
    quick(40)(given(stories())(property_for(_probes(*probe_plugins.LEVELS, ObjectReader))))()


# -- planted bugs --------------------------------------------------------------------------------------------------


class _Forgetful(ChangeLog):
    """A change log that reports no change to its readers."""

    __slots__ = ()

    def since(self, mark: int) -> Any:
        rows = super().since(mark)
        return rows if rows is None else rows[:0]


def _forget(log: str) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        init = ClusterState.__init__

        def forgetful(self: ClusterState) -> None:
            init(self)
            setattr(self, log, _Forgetful())

        patch.setattr(ClusterState, "__init__", forgetful)

    return plant


def _declare(plugin: type[Any], **declarations: Any) -> Plant:
    """Return a plant of wrong declarations of a plugin."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        for name, value in declarations.items():
            patch.setattr(plugin, name, value)

    return plant


def _return(plugin: type[Any], method: str, value: object) -> Plant:
    """Return a plant of a method that always returns the value."""
    return lambda patch: patch.setattr(plugin, method, lambda *_: value)


def _constant(owner: type[Any], attribute: str) -> Plant:
    """Return a plant of an attribute that never changes."""
    return lambda patch: patch.setattr(owner, attribute, property(lambda _: 0, lambda *_: None), raising=False)


def _skip_whole_group(plugin: type[Any], method: str) -> Plant:
    """Return a plant of a plugin whose Skip claims to hold for the whole signature group."""
    original = getattr(plugin, method)

    def skip(*args: Any) -> Any:
        returned = original(*args)
        return SKIP_SIGNATURE_GROUP if isinstance(returned, Skip) else returned

    return lambda patch: patch.setattr(plugin, method, skip)


def _ignore_requests(patch: pytest.MonkeyPatch) -> None:
    """Use one cache for pods that differ in requests."""
    cache_of, first = schedule_pod.cache_of, dict[tuple[int, str], Pod]()

    def of_first(runtime: ProfileRuntime, pod: Pod) -> EquivalenceCache | None:
        key = repr((pod.spec.tolerations, pod.spec.affinity, pod.spec.volumes))
        return cache_of(runtime, first.setdefault((id(runtime), key), pod))

    patch.setattr(schedule_pod, "cache_of", of_first)


class _EqualSpan(tuple[int, int]):
    """A span that is equal to any other."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = tuple.__hash__


def _equal_spans(patch: pytest.MonkeyPatch) -> None:
    normalizer = type(PodLimit.normalizer)
    span = normalizer.span
    patch.setattr(normalizer, "span", lambda self, scores: _EqualSpan(span(self, scores)))


class Bug(NamedTuple):
    """A planted bug, with plugins, changes and kinds of pods for which it matters."""

    plant: Plant
    plugins: tuple[type[Any], ...] = ()
    changes: Sequence[str] = ALL
    kinds: Sequence[int] = ALL_KINDS


_RELATED = (0, 12)
"""Kinds of pods that differ in labels only."""
_SPREAD, _APART, _NAMED = CONSTRAINED_KINDS[2:4], AFFINITY_KINDS[:2], CONSTRAINED_KINDS[-6:-4]
_SOFT = CONSTRAINED_KINDS[4:6]
_FEATURES = (CONSTRAINED_KINDS[10],)
_WITHOUT_EQUIVALENCE = {
    "filter_cache_key": FilterPlugin.filter_cache_key,
    "filter_equivalence": FilterPlugin.filter_equivalence,
    "score_equivalence": ScorePlugin.score_equivalence,
}


def _node_fields(plugin: type[Any], fields: NodeFields, kinds: Sequence[int] = ALL_KINDS) -> Bug:
    """Return the bug that a plugin declares too few parts of node objects."""
    return Bug(_return(plugin, "node_fields_of", fields), (), ("node", "node", "node", "delete"), kinds)


def _ignore_labels_by_row(patch: pytest.MonkeyPatch) -> None:
    """Let VolumeBinding's results by row ignore labels. By class, those of the topologies count in any case."""
    _return(VolumeBinding, "filter_equivalence", None)(patch)
    _return(VolumeBinding, "node_fields_of", NodeFields.NONE)(patch)


BUGS = {
    "labels of nodes are ignored": _node_fields(NodeAffinity, NodeFields.SPEC, (4, 10, 16, 5)),
    "hard taints of nodes are ignored": _node_fields(TaintToleration, NodeFields.LABELS),
    "unschedulable nodes are ignored": _node_fields(NodeUnschedulable, NodeFields.LABELS),
    "allocatable amounts are ignored": _node_fields(NodeResourcesFit, NodeFields.LABELS),
    "images of nodes are ignored": _node_fields(ImageLocality, NodeFields.LABELS, (5, 11, 17)),
    "declared features of nodes are ignored": _node_fields(NodeDeclaredFeatures, NodeFields.LABELS, _FEATURES),
    "labels of nodes are ignored by spreading": _node_fields(PodTopologySpread, NodeFields.NONE, _SOFT),
    "labels of volumes' nodes are ignored": Bug(
        _ignore_labels_by_row, (), ("node", "node", "node", "delete"), CLAIM_KINDS
    ),
    "added and removed pods are missed": Bug(_forget("usage_log")),
    "changed nodes are missed": Bug(_forget("node_log")),
    "changed objects are missed": Bug(_return(ClusterState, "object_changed", None), (ObjectReader,), ("object",)),
    "nominated pods are stale": Bug(_return(Nominator, "competing_pods_version", (0, "")), (), NOMINATIONS),
    "normalization is stale": Bug(_equal_spans, (PodLimit,)),
    "best nodes are stale": Bug(_return(TopScores, "update", None)),
    "requests are not in the signature": Bug(_ignore_requests),
    "labels are ignored": Bug(_declare(TeamPreference, reads_labels=False), (TeamPreference,), NODES, _RELATED),
    "labels are ignored by Skip": Bug(_skip_whole_group(TeamCpu, "pre_filter"), (TeamCpu,), NODES, _RELATED),
    "claims are ignored": Bug(_declare(ClaimReader, reads_claims=False), (ClaimReader,), ("object",), CLAIM_KINDS),
    "named nodes are ignored": Bug(_declare(NodeAffinity, reads_match_fields=False), (), PODS, _NAMED),
    "names are ignored": Bug(_declare(NameReader, reads_identity=False), (NameReader,)),
    "nodes in PreFilter are ignored": Bug(_declare(TeamShare, pre_reads_nodes=False), (TeamShare,), NODES),
    "placed templates are ignored": Bug(_declare(InterPodAffinity, skips_read_pods=False)),
    "pods on the node are ignored": Bug(_declare(NodeResourcesFit, reads=Reads.OWN_NODE)),
    "ports on the node are ignored": Bug(_declare(NodePorts, reads=Reads.OWN_NODE), kinds=(1, 2, 7)),
    "other nodes are ignored": Bug(_declare(TeamRank, reads=Reads.OWN_NODE), (TeamRank,), NODES),
    "affinity domains are ignored": Bug(
        _declare(InterPodAffinity, reads=Reads.OWN_NODE_AND_PODS, **_WITHOUT_EQUIVALENCE), (), PODS, _APART
    ),
    "spread domains are ignored": Bug(
        _declare(PodTopologySpread, reads=Reads.OWN_NODE_AND_PODS, **_WITHOUT_EQUIVALENCE), (), PODS, _SPREAD
    ),
    "volumes are ignored": Bug(_return(VolumeBinding, "filter_cache_key", 0), (), ("object",), CLAIM_KINDS),
    "classes for affinity are stale": Bug(_return(NodeClasses, "_update_counts", True), (), ("delete",), _APART),
    "classes for spreading are stale": Bug(_return(NodeClasses, "_update_counts", True), (), ("delete",), _SPREAD),
    "affinity cache key is constant": Bug(_return(InterPodAffinity, "filter_cache_key", 0), (), ("delete",), _APART),
    "spread cache key is constant": Bug(_return(PodTopologySpread, "filter_cache_key", 0), (), ("delete",), _SPREAD),
    "affinity score key is constant": Bug(_return(InterPodAffinity, "score_cache_key", 0), (), PODS, AFFINITY_KINDS),
    "views of placed pods are stale": Bug(_constant(PlacedPods, "views_version"), (), PODS, CONSTRAINED_KINDS[2:6]),
    "score cache key is constant": Bug(_return(TeamRank, "score_cache_key", 0), (TeamRank,), NODES),
    "classes for scores are stale": Bug(_return(NodeClasses, "_update_counts", True), (TeamScore,), PODS, BASIC_KINDS),
}


@pytest.mark.parametrize("bug", BUGS)
def test_property_catches_stale_results(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, classes, changes, kinds = BUGS[bug]
    plant(monkeypatch)
    assert_caught(property_for(_probes(*classes)), stories(changes, kinds), match="without the result cache")
