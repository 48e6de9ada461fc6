"""Pods of one template of which each names a node: what was said of one serves the next, unless the name matters."""

from __future__ import annotations

from typing import ClassVar

import pytest

from pyscheduler.api import (
    SKIP_SIGNATURE,
    SKIP_SIGNATURE_GROUP,
    Cycle,
    FilterPlugin,
    NodeInfo,
    NodeTable,
    Pod,
    PreFilterPlugin,
    Reads,
    Rejection,
    Skip,
)
from pyscheduler.core.decide.dry_run import DryRunner
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.state import ClusterState, PodSignatures
from pyscheduler.intree import NodeAffinity, PrioritySort
from pyscheduler.testing import PodBuilder, node, pod
from tests.unit.core.decide.test_decider import HANDLE, Bench
from tests.unit.intree.test_node_affinity import names


class Doorkeeper(FilterPlugin):
    """Lets a pod in where it has not asked to keep away."""

    name = "Doorkeeper"
    reads = Reads.OWN_NODE
    reads_labels = reads_claims = False
    asked: ClassVar[list[str]] = []

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        self.asked.append(node.name)
        terms = pod.signature.required_node_terms or ()
        return None if any(term.matches(node.name, node.labels) for term in terms) else Rejection("keeps away")


class Indifferent(Doorkeeper):
    """Lets nobody in, whatever they ask."""

    name = "Indifferent"
    reads_match_fields = False

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        self.asked.append(node.name)
        return Rejection("nobody")


def away_from(name: str) -> PodBuilder:
    """A pod that may go to any node but this one: PreFilter leaves all of them to be asked about."""
    return pod("p").node_affinity(names("NotIn", name))


def on(name: str) -> PodBuilder:
    """A pod like those of a DaemonSet."""
    return pod("p").node_affinity(names("In", name))


def test_a_pod_that_names_another_node_is_asked_about_anew() -> None:
    bench = Bench(node("n1"), node("n2"), filters=(Doorkeeper,))
    assert [bench.chosen(away_from(name)) for name in ("n1", "n2", "n1")] == ["n2", "n1", "n2"]


def test_it_is_not_where_names_do_not_matter() -> None:
    bench = Bench(node("n1"), node("n2"), filters=(Indifferent,))
    Indifferent.asked.clear()
    for name in ("n1", "n2", "n1"):
        bench.refused(away_from(name))
    assert Indifferent.asked == ["n1", "n2"]


def test_each_pod_of_a_daemon_set_gets_the_node_that_it_names() -> None:
    bench = Bench(node("n1"), node("n2"), node("n3"), filters=(NodeAffinity,))
    assert [bench.chosen(on(name)) for name in ("n2", "n3", "n1", "n2")] == ["n2", "n3", "n1", "n2"]


class Roommates(PreFilterPlugin, Doorkeeper):
    """Has nothing to say as long as no pod is placed that wants to be alone."""

    name = "Roommates"
    reads_match_fields = False
    before: ClassVar[list[str]] = []

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        self.before.append(pod.name)
        return SKIP_SIGNATURE


def test_what_rests_on_which_templates_are_placed_holds_while_their_pods_come_and_go() -> None:
    bench = Bench(node("n1"), node("n2"), filters=(NodeAffinity, Roommates))
    Roommates.before.clear()
    for number, name in enumerate(("n1", "n2", "n1", "n2")):
        placed = pod(f"p{number}").node_affinity(names("In", name))
        assert bench.chosen(placed) == name
        bench.state.place(placed.on(name).build(bench.shapes), name)
    bench.state.place(pod("other").requests(cpu="1").on("n1").build(bench.shapes), "n1")
    bench.chosen(pod("p4").node_affinity(names("In", "n2")))

    assert Roommates.before == ["p0", "p1", "p4"]  # p1: p0 is the first of its template to be placed


class Keyholder(Roommates):
    """Reads which nodes are named, and has nothing to say of this template, or only of this signature."""

    name = "Keyholder"
    reads_match_fields = True
    answer = SKIP_SIGNATURE_GROUP

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        super().pre_filter(cycle, pod, nodes)
        return self.answer


class CarefulKeyholder(Keyholder):
    name = "CarefulKeyholder"
    answer = SKIP_SIGNATURE


@pytest.mark.parametrize(
    ("asked", "times"),
    [pytest.param(Keyholder, 1, id="of the template"), pytest.param(CarefulKeyholder, 3, id="of the signature")],
)
def test_a_skip_is_of_all_pods_of_the_template_only_if_it_says_so(asked: type[Keyholder], times: int) -> None:
    bench = Bench(node("n1"), node("n2"), filters=(NodeAffinity, asked))
    Roommates.before.clear()
    for number, name in enumerate(("n1", "n2", "n1")):
        assert bench.chosen(pod(f"p{number}").node_affinity(names("In", name))) == name

    assert len(Roommates.before) == times


def test_a_skip_of_all_pods_of_the_template_ends_when_pods_of_another_come() -> None:
    bench = Bench(node("n1"), node("n2"), filters=(NodeAffinity, Keyholder))
    Roommates.before.clear()
    bench.chosen(on("n1"))
    bench.state.place(pod("other").on("n2").build(bench.shapes), "n2")
    bench.chosen(on("n2"))
    bench.chosen(on("n1"))

    assert len(Roommates.before) == 2


def test_a_plugin_that_spoke_of_the_template_may_speak_of_the_shape_next(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(node("n1"), node("n2"), filters=(NodeAffinity, Keyholder))
    Roommates.before.clear()
    bench.chosen(on("n1"))
    bench.state.place(pod("other").on("n2").build(bench.shapes), "n2")
    monkeypatch.setattr(Keyholder, "answer", SKIP_SIGNATURE)
    for name in ("n1", "n2", "n1"):
        bench.chosen(on(name))

    assert len(Roommates.before) == 4


@pytest.mark.parametrize(
    ("asked", "for_both"),
    [pytest.param(Doorkeeper, False, id="it reads names"), pytest.param(Indifferent, True, id="no")],
)
def test_what_a_trial_showed_holds_for_a_pod_that_names_another_node_where_names_do_not_matter(
    asked: type[Doorkeeper], for_both: bool
) -> None:
    profile = Profile("p", PrioritySort(PrioritySort.Args(), HANDLE), filter=(asked(asked.Args(), HANDLE),))
    state, shapes = ClusterState(), PodSignatures()
    state.set_node(node("n1").build())
    trials, row = DryRunner({"p": profile}, state, Nominator()), state.info("n1")
    assert row is not None
    pods = [away_from(name).build(shapes) for name in ("n2", "n3")]
    one, other = (trials.dry_run_cache_key(Cycle(0.0, "p", each.uid), each, row) for each in pods)
    assert one is not None
    assert (one == other) == for_both
