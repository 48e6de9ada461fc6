"""InterPodAffinity as a score: the terms of both sides draw the pod to some domains and away from others."""

from __future__ import annotations

import numpy as np
import pytest

from pyscheduler.api import Skip, StatusError
from pyscheduler.core.framework.handle import CoreHandle
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
            id="each term for itself",
        ),
        pytest.param(
            FRONT.preferred_pod_affinity(5, term()), [w.deleting() for w in WEBS], [10, 10, 5, 0], id="on their way out"
        ),
        pytest.param(
            FRONT, [DB.preferred_pod_affinity(6, term(IS_FRONT)).on("a1")], [6, 6, 0, 0], id="their preference"
        ),
        pytest.param(
            FRONT, [DB.preferred_pod_anti_affinity(6, term(IS_FRONT)).on("b1")], [0, 0, -6, 0], id="their aversion"
        ),
        pytest.param(FRONT, [DB.pod_affinity(term(IS_FRONT)).on("a1")], [1, 1, 0, 0], id="what they require, a little"),
        pytest.param(
            FRONT,
            [DB.pod_affinity(term(IS_FRONT), term(IS_WEB)).on("a1")],
            [1, 1, 0, 0],
            id="each required term for itself",
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
            id="to naught",
        ),
        pytest.param(FRONT.preferred_pod_affinity(0, term()), WEBS, [0, 0, 0, 0], id="without weight"),
        pytest.param(
            FRONT.pod_affinity(term()).pod_anti_affinity(term()), WEBS, None, id="own requirements do not score"
        ),
        pytest.param(FRONT.preferred_pod_affinity(5, term(IS_DB)), WEBS, None, id="nobody there"),
        pytest.param(
            FRONT.preferred_pod_affinity(5, term()), [WEB.on("none"), WEB.uid("g").on("gone")], None, id="nowhere"
        ),
        pytest.param(FRONT, [DB.pod_anti_affinity(term({})).on("a1")], None, id="their anti-affinity does not score"),
        pytest.param(FRONT, [DB.preferred_pod_affinity(5, term()).on("a1")], None, id="they like others"),
        pytest.param(FRONT, WEBS, None, id="no terms"),
    ],
)
def test_both_sides_pull(of: PodBuilder, running: list[PodBuilder], raw: list[int] | None) -> None:
    assert raw_scores(plugin(), of, running) == raw


@pytest.mark.parametrize(("weight", "raw"), [(0, None), (1, [1, 1, 0, 0]), (40, [40, 40, 0, 0])])
def test_the_weight_of_what_others_require(weight: int, raw: list[int] | None) -> None:
    running = [DB.pod_affinity(term(IS_FRONT)).on("a1")]
    assert raw_scores(plugin(hard_pod_affinity_weight=weight), FRONT, running) == raw


def test_preferences_of_others_can_be_ignored_for_pods_without_any() -> None:
    running = [DB.preferred_pod_affinity(6, term(IS_FRONT)).pod_affinity(term(IS_FRONT)).on("a1"), WEB.on("b1")]
    ignoring = plugin(ignore_preferred_terms_of_existing_pods=True)
    assert raw_scores(ignoring, FRONT, running) is None
    assert raw_scores(ignoring, FRONT.pod_affinity(term()), running) is None
    assert raw_scores(ignoring, FRONT.preferred_pod_affinity(2, term()), running) == [7, 7, 2, 0]


def test_namespaces_of_either_side() -> None:
    known = {"default": {"team": "red"}, "blue": {"team": "blue"}}
    is_red, is_blue = {"matchLabels": {"team": "red"}}, {"matchLabels": {"team": "blue"}}
    running = [WEB.namespace("blue").preferred_pod_affinity(3, term(IS_FRONT, namespaceSelector=is_red)).on("b1")]
    of = FRONT.preferred_pod_affinity(5, term(namespaceSelector=is_blue))
    assert raw_scores(plugin(known), of, running) == [0, 0, 8, 0]
    assert raw_scores(plugin({"default": {}}), of, running) is None


def test_what_is_counted_does_not_depend_on_which_nodes_are_feasible() -> None:
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
def test_scores_are_spread_over_the_range(raw: list[int], final: list[int]) -> None:
    given = np.array(raw, np.int64)
    assert plugin().normalize(cycle(), FRONT.build(), given).tolist() == final


def test_terms_that_cannot_be_read_are_an_error_where_pre_filter_is_off() -> None:
    unreadable = FRONT.preferred_pod_affinity(1, term(has("app", "Gt", "1"))).preferred_pod_anti_affinity(1, term())
    with pytest.raises(StatusError, match=r'^failed to parse pod: preferredAffinityTerms: "Gt" is not a valid'):
        plugin().pre_score(cycle(), unreadable.build(), table(NODES))


# -- the same plugin, asked again and again ----------------------------------------------------------------------


class Story:
    """A cluster in which things happen, and what the plugin says in between."""

    def __init__(self) -> None:
        self.state, self.handle = ClusterState(), CoreHandle()
        for built in NODES:
            self.state.set_node(built.build())
        self._plugin = InterPodAffinity(InterPodAffinity.Args(), self.handle)

    def scores(self, of: PodBuilder) -> list[int] | None:
        attempt, cluster = cycle(), self.state.table()
        if isinstance(self._plugin.pre_score(attempt, of.build(), cluster), Skip):
            return None
        scores: list[int] = self._plugin.score_all(attempt, of.build(), cluster).tolist()
        return scores


def test_pods_come_and_go_and_nodes_move() -> None:
    story, of = Story(), FRONT.preferred_pod_affinity(5, term())
    assert story.scores(of) is None
    for web in WEBS:
        story.state.add_pod(web.build())
    assert story.scores(of) == [10, 10, 5, 0]
    story.state.remove("web")
    assert story.scores(of) == [5, 5, 5, 0]
    story.state.set_node(NODES[1].zone("b").build())
    assert story.scores(of) == [0, 10, 10, 0]
    story.state.set_node(NODES[3].zone("b").build())
    assert story.scores(of) == [0, 10, 10, 10]
    story.state.remove_node("a2")
    assert story.scores(of) == [0, 5, 5]
    for i in range(20):
        story.state.add_pod(WEB.uid(f"more-{i}").on("a1").build())
    assert story.scores(of) == [100, 5, 5]


def test_namespaces_are_relabelled() -> None:
    story, is_blue = Story(), {"matchLabels": {"team": "blue"}}
    of = FRONT.preferred_pod_affinity(5, term(namespaceSelector=is_blue))
    theirs = WEB.namespace("other").preferred_pod_affinity(3, term(IS_FRONT, namespaceSelector=is_blue)).on("a1")
    story.state.add_pod(theirs.build())
    assert story.scores(of) is None
    label_namespace(story.handle, "other", {"team": "blue"})
    assert story.scores(of) == [5, 5, 0, 0]
    label_namespace(story.handle, "default", {"team": "blue"})
    assert story.scores(of) == [8, 8, 0, 0]
    label_namespace(story.handle, "other", {"team": "red"})
    assert story.scores(of) == [3, 3, 0, 0]


def test_the_namespace_of_the_pod_itself_is_relabelled() -> None:
    story, is_blue = Story(), {"matchLabels": {"team": "blue"}}
    story.state.add_pod(
        WEB.namespace("other").preferred_pod_affinity(3, term(IS_FRONT, namespaceSelector=is_blue)).on("a1").build()
    )
    assert story.scores(FRONT) is None
    label_namespace(story.handle, "default", {"team": "blue"})
    assert story.scores(FRONT) == [3, 3, 0, 0]
    label_namespace(story.handle, "default", {"team": "red"})
    assert story.scores(FRONT) is None
