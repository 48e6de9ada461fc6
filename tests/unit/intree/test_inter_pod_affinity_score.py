"""InterPodAffinity as a score: terms of the incoming and of existing pods add to or subtract from domains."""

from __future__ import annotations

import numpy as np
import pytest

from pyscheduler.api import Skip, StatusError
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.core.state import ClusterState
from pyscheduler.intree import InterPodAffinity
from pyscheduler.testing import PodBuilder, pod

from .affinity import DB, HOST, IS_DB, IS_WEB, NODES, WEB, has, label_namespace, plugin, raw_scores, term
from .cluster import cycle, table

FRONT = pod("front").label("app", "front")
IS_FRONT = {"matchLabels": {"app": "front"}}
WEBS = [WEB.on("a1"), WEB.uid("2").on("a2"), WEB.uid("3").on("b1")]


@pytest.mark.parametrize(
    ("of", "running", "raw"),
    [
        pytest.param(FRONT.preferred_pod_affinity(5, term()), WEBS, [10, 10, 5, 0], id="own affinity, each pod counts"),
        pytest.param(FRONT.preferred_pod_anti_affinity(5, term()), WEBS, [-10, -10, -5, 0], id="own anti-affinity"),
        pytest.param(
            FRONT.preferred_pod_affinity(5, term()).preferred_pod_anti_affinity(7, term(key=HOST)),
            WEBS,
            [3, 3, -2, 0],
            id="two topologies",
        ),
        pytest.param(
            FRONT.preferred_pod_affinity(5, term()).preferred_pod_affinity(2, term(has("app", "Exists"))),
            [*WEBS, DB.on("b1")],
            [14, 14, 9, 0],
            id="each term counts",
        ),
        pytest.param(
            FRONT.preferred_pod_affinity(5, term()),
            [w.deleting() for w in WEBS],
            [10, 10, 5, 0],
            id="terminating pods count",
        ),
        pytest.param(
            FRONT, [DB.preferred_pod_affinity(6, term(IS_FRONT)).on("a1")], [6, 6, 0, 0], id="existing pod's preference"
        ),
        pytest.param(
            FRONT,
            [DB.preferred_pod_anti_affinity(6, term(IS_FRONT)).on("b1")],
            [0, 0, -6, 0],
            id="existing pod's preferred anti-affinity",
        ),
        pytest.param(
            FRONT, [DB.pod_affinity(term(IS_FRONT)).on("a1")], [1, 1, 0, 0], id="existing pod's required affinity"
        ),
        pytest.param(
            FRONT,
            [DB.pod_affinity(term(IS_FRONT), term(IS_WEB)).on("a1")],
            [1, 1, 0, 0],
            id="each required term counts",
        ),
        pytest.param(
            FRONT,
            [DB.pod_anti_affinity(term(IS_DB)).preferred_pod_affinity(1, term(IS_FRONT)).on("b1")],
            [0, 0, 1, 0],
            id="some",
        ),
        pytest.param(
            FRONT.preferred_pod_affinity(5, term()),
            [*WEBS, DB.preferred_pod_affinity(3, term(IS_FRONT, HOST)).on("b1")],
            [10, 10, 8, 0],
            id="both sides",
        ),
        pytest.param(
            FRONT.preferred_pod_affinity(5, term(key=HOST)).preferred_pod_anti_affinity(5, term(key=HOST)),
            WEBS,
            [0, 0, 0, 0],
            id="weights cancel out",
        ),
        pytest.param(FRONT.preferred_pod_affinity(0, term()), WEBS, [0, 0, 0, 0], id="weight 0"),
        pytest.param(
            FRONT.pod_affinity(term()).pod_anti_affinity(term()), WEBS, None, id="own requirements do not score"
        ),
        pytest.param(FRONT.preferred_pod_affinity(5, term(IS_DB)), WEBS, None, id="no matching pod"),
        pytest.param(
            FRONT.preferred_pod_affinity(5, term()),
            [WEB.on("none"), WEB.uid("g").on("gone")],
            None,
            id="pods outside the topology",
        ),
        pytest.param(
            FRONT,
            [DB.pod_anti_affinity(term({})).on("a1")],
            None,
            id="existing pod's required anti-affinity does not score",
        ),
        pytest.param(
            FRONT, [DB.preferred_pod_affinity(5, term()).on("a1")], None, id="existing pod's terms for other pods"
        ),
        pytest.param(FRONT, WEBS, None, id="no terms"),
    ],
)
def test_raw_score_of_terms_of_both_pods(of: PodBuilder, running: list[PodBuilder], raw: list[int] | None) -> None:
    assert raw_scores(plugin(), of, running) == raw


@pytest.mark.parametrize(("weight", "raw"), [(0, None), (1, [1, 1, 0, 0]), (40, [40, 40, 0, 0])])
def test_hard_pod_affinity_weight_scores_required_terms(weight: int, raw: list[int] | None) -> None:
    running = [DB.pod_affinity(term(IS_FRONT)).on("a1")]
    assert raw_scores(plugin(hard_pod_affinity_weight=weight), FRONT, running) == raw


def test_preferred_terms_of_existing_pods_can_be_ignored() -> None:
    running = [DB.preferred_pod_affinity(6, term(IS_FRONT)).pod_affinity(term(IS_FRONT)).on("a1"), WEB.on("b1")]
    ignoring = plugin(ignore_preferred_terms_of_existing_pods=True)
    assert raw_scores(ignoring, FRONT, running) is None
    assert raw_scores(ignoring, FRONT.pod_affinity(term()), running) is None
    assert raw_scores(ignoring, FRONT.preferred_pod_affinity(2, term()), running) == [7, 7, 2, 0]


def test_score_uses_namespaces_of_both_pods() -> None:
    known = {"default": {"team": "red"}, "blue": {"team": "blue"}}
    is_red, is_blue = {"matchLabels": {"team": "red"}}, {"matchLabels": {"team": "blue"}}
    running = [WEB.namespace("blue").preferred_pod_affinity(3, term(IS_FRONT, namespaceSelector=is_red)).on("b1")]
    of = FRONT.preferred_pod_affinity(5, term(namespaceSelector=is_blue))
    assert raw_scores(plugin(known), of, running) == [0, 0, 8, 0]
    assert raw_scores(plugin({"default": {}}), of, running) is None


def test_counts_cover_infeasible_nodes() -> None:
    state = ClusterState()
    for built in NODES:
        state.set_node(built.build())
    state.add_pod(WEB.on("a1").build())
    subject, attempt, of = plugin(), cycle(), FRONT.preferred_pod_affinity(5, term()).build()
    feasible = state.table(np.array([1, 3]))
    assert subject.pre_score(attempt, of, feasible) is None
    assert subject.score_all(attempt, of, feasible).tolist() == [5, 0]


@pytest.mark.parametrize(
    ("raw", "final"),
    [
        pytest.param([0, 50, 100], [0, 50, 100], id="the range is what counts"),
        pytest.param([-7, -3, -5], [0, 100, 50], id="below 0"),
        pytest.param([4, 4], [0, 0], id="all the same"),
        pytest.param([0, 29, 57, 100], [0, 28, 56, 100], id="in floats, rounded down"),
        pytest.param([1, 2, 4], [0, 33, 100], id="thirds"),
        pytest.param([9007199254740993, 0], [100, 0], id="beyond what a float holds"),
    ],
)
def test_scores_are_normalized_to_the_range(raw: list[int], final: list[int]) -> None:
    given = np.array(raw, np.int64)
    assert plugin().normalize(cycle(), FRONT.build(), given).tolist() == final


def test_invalid_terms_raise_if_pre_filter_is_disabled() -> None:
    unreadable = FRONT.preferred_pod_affinity(1, term(has("app", "Gt", "1"))).preferred_pod_anti_affinity(1, term())
    with pytest.raises(StatusError, match=r'^failed to parse pod: preferredAffinityTerms: "Gt" is not a valid'):
        plugin().pre_score(cycle(), unreadable.build(), table(NODES))


# -- one plugin over several cycles -----------------------------------------------------------------------------


class Scenario:
    """One plugin and a cluster that changes between scores."""

    def __init__(self) -> None:
        self.state, self.handle = ClusterState(), empty_handle()
        for built in NODES:
            self.state.set_node(built.build())
        self._plugin = InterPodAffinity(InterPodAffinity.Args(), self.handle)

    def scores(self, of: PodBuilder) -> list[int] | None:
        attempt, cluster = cycle(), self.state.table()
        if isinstance(self._plugin.pre_score(attempt, of.build(), cluster), Skip):
            return None
        scores: list[int] = self._plugin.score_all(attempt, of.build(), cluster).tolist()
        return scores


def test_score_follows_pods_and_nodes() -> None:
    scenario, of = Scenario(), FRONT.preferred_pod_affinity(5, term())
    assert scenario.scores(of) is None
    for web in WEBS:
        scenario.state.add_pod(web.build())
    assert scenario.scores(of) == [10, 10, 5, 0]
    scenario.state.remove("web")
    assert scenario.scores(of) == [5, 5, 5, 0]
    scenario.state.set_node(NODES[1].zone("b").build())
    assert scenario.scores(of) == [0, 10, 10, 0]
    scenario.state.set_node(NODES[3].zone("b").build())
    assert scenario.scores(of) == [0, 10, 10, 10]
    scenario.state.remove_node("a2")
    assert scenario.scores(of) == [0, 5, 5]
    for i in range(20):
        scenario.state.add_pod(WEB.uid(f"more-{i}").on("a1").build())
    assert scenario.scores(of) == [100, 5, 5]


def test_score_follows_namespace_labels() -> None:
    scenario, is_blue = Scenario(), {"matchLabels": {"team": "blue"}}
    of = FRONT.preferred_pod_affinity(5, term(namespaceSelector=is_blue))
    existing = WEB.namespace("other").preferred_pod_affinity(3, term(IS_FRONT, namespaceSelector=is_blue)).on("a1")
    scenario.state.add_pod(existing.build())
    assert scenario.scores(of) is None
    label_namespace(scenario.handle, "other", {"team": "blue"})
    assert scenario.scores(of) == [5, 5, 0, 0]
    label_namespace(scenario.handle, "default", {"team": "blue"})
    assert scenario.scores(of) == [8, 8, 0, 0]
    label_namespace(scenario.handle, "other", {"team": "red"})
    assert scenario.scores(of) == [3, 3, 0, 0]


def test_score_follows_labels_of_pods_own_namespace() -> None:
    scenario, is_blue = Scenario(), {"matchLabels": {"team": "blue"}}
    scenario.state.add_pod(
        WEB.namespace("other").preferred_pod_affinity(3, term(IS_FRONT, namespaceSelector=is_blue)).on("a1").build()
    )
    assert scenario.scores(FRONT) is None
    label_namespace(scenario.handle, "default", {"team": "blue"})
    assert scenario.scores(FRONT) == [3, 3, 0, 0]
    label_namespace(scenario.handle, "default", {"team": "red"})
    assert scenario.scores(FRONT) is None
