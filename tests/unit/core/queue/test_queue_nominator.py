"""Nominations: set here before the API server has them, and ended when the pod is placed or deleted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.api import Pod
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.testing.builders import pod
from tests.unit.core.queue.queue_fixture import Gate, QueueFixture

PLAIN = pod("p").build()


def nominated(node_name: str) -> Nominator:
    nominator = Nominator()
    nominator.add(PLAIN, node_name)
    return nominator


def test_nominated_pods_are_indexed_by_uid_and_by_node() -> None:
    nominator = nominated("n1")
    second = pod("q").nominated("n1").build()
    nominator.add(second)
    assert nominator.node_of["p"] == "n1"
    assert nominator.pods_on("n1") == (PLAIN, second)
    assert list(nominator.nodes()) == ["n1"]
    assert (len(nominator), "q" in nominator, nominator.pods_on("n2")) == (2, True, ())


def test_second_nomination_replaces_the_first_and_an_empty_one_ends_it() -> None:
    nominator = nominated("n1")
    nominator.add(PLAIN, "n2")
    assert (nominator.pods_on("n1"), nominator.pods_on("n2")) == ((), (PLAIN,))
    nominator.add(PLAIN, "")
    assert len(nominator) == 0
    assert list(nominator.nodes()) == []


def test_rivals_version_changes_with_the_rivals() -> None:
    nominator, other = Nominator(), pod("other").build()

    def read(by: Pod) -> tuple[tuple[int, str, str, int], list[str]]:
        return nominator.competing_pods_version(by, "n1"), [rival.uid for rival in nominator.competing_pods(by, "n1")]

    reads = [read(other)]
    for step in ((PLAIN, "n1"), (pod("q").build(), "n1"), (pod("elsewhere").build(), "n2"), (PLAIN, ""), (other, "n1")):
        nominator.add(*step)
        reads += [read(PLAIN), read(other)]
    nominator.remove("q")
    nominator.remove("other")
    reads.append(read(other))
    assert [rivals for _, rivals in reads[:3]] == [[], [], ["p"]]
    assert all(a[0] != b[0] for a in reads for b in reads if a[1] != b[1])
    assert reads[0] == reads[-1], "the version of no rivals is always the same"


def test_rivals_version_changes_with_the_priority_of_the_pod() -> None:
    nominator, before, raised = nominated("n1"), pod("other").build(), pod("other").priority(5).build()
    assert (nominator.competing_pods(before, "n1"), nominator.competing_pods(raised, "n1")) == ([PLAIN], [])
    assert nominator.competing_pods_version(before, "n1") != nominator.competing_pods_version(raised, "n1")


def test_version_of_all_rivals_changes_with_those_on_any_node() -> None:
    nominator, other = nominated("n1"), pod("other").build()
    version, own = nominator.all_competing_pods_version(other), nominator.all_competing_pods_version(PLAIN)
    assert version != own, "a pod does not compete with itself"
    nominator.add(pod("q").build(), "n2")
    assert nominator.all_competing_pods_version(other) != version
    version = nominator.all_competing_pods_version(other)
    nominator.remove("p")
    assert nominator.all_competing_pods_version(other) != version


def test_bound_pod_is_not_nominated() -> None:
    nominator = Nominator()
    nominator.add(pod("p").nominated("n1").on("n2").build())
    assert len(nominator) == 0


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [("", "", "n1"), ("", "n2", "n2"), ("n1", "n2", "n2"), ("n1", "", ""), ("n1", "n1", "n1"), ("n0", "n0", "n1")],
    ids=["not yet written", "set by another component", "changed", "cleared", "unchanged", "outdated"],
)
def test_update_follows_the_status_only_if_its_nomination_changed(old: str, new: str, expected: str) -> None:
    nominator = nominated("n1")
    version = pod("p").nominated(new).build()
    nominator.update(pod("p").nominated(old).build(), version)
    assert nominator.node_of.get("p", "") == expected
    assert nominator.pods_on(expected) == ((version,) if expected else ())


def test_cleared_nomination_stays_cleared_until_the_status_is_set_again() -> None:
    nominator, before = Nominator(), pod("p").nominated("n1").build()
    nominator.add(before)
    nominator.add(before, "")
    nominator.update(before, pod("p").nominated("n1").label("x").build())
    assert (nominator.nominated_node(before), len(nominator)) == ("", 0)
    nominator.update(before, PLAIN)
    nominator.update(PLAIN, before)
    assert nominator.nominated_node(before) == "n1"


@pytest.mark.parametrize(("status", "in_memory", "expected"), [("", "n1", "n1"), ("n0", "n1", "n1"), ("n0", "", "n0")])
def test_nominator_overrides_the_status(status: str, in_memory: str, expected: str) -> None:
    nominator, subject = Nominator(), pod("p").nominated(status).build()
    if in_memory:
        nominator.add(subject, in_memory)
    assert nominator.nominated_node(subject) == expected


def test_update_without_a_nominated_node_adds_no_nomination() -> None:
    nominator = Nominator()
    nominator.update(PLAIN, pod("p").label("x").build())
    assert len(nominator) == 0


def test_added_pod_with_a_nominated_node_is_nominated_even_if_it_is_gated() -> None:
    fixture = QueueFixture(gates=(Gate(closed_to=["gated"]),))
    fixture.add(pod("p").nominated("n1").build(), pod("gated").nominated("n2").build())
    assert fixture.queue.nominator.node_of == {"p": "n1", "gated": "n2"}


@pytest.mark.parametrize("tier", ["active", "backoff", "unschedulable"])
def test_updates_in_any_tier_reach_the_nominator(tier: str) -> None:
    fixture = QueueFixture()
    fixture.add("p")
    if tier != "active":
        fixture.try_and_fail(*(["Fit"] if tier == "unschedulable" else []))
    assert fixture.queue.pending_counts()[tier] == 1
    fixture.queue.update(pod("p").build(), pod("p").nominated("n1").build(), [], fixture.now)
    assert fixture.queue.nominator.node_of["p"] == "n1"
    fixture.queue.delete("p")
    assert len(fixture.queue.nominator) == 0


SMALLER = pod("p").requests(cpu="1").build()


@pytest.mark.parametrize(
    ("change", "freed"),
    [
        pytest.param(lambda n: n.remove("p"), [("n1", PLAIN, None)], id="the pod is deleted"),
        pytest.param(lambda n: n.remove("p", placed_on="n1"), [], id="the pod is placed on the node"),
        pytest.param(
            lambda n: n.remove("p", placed_on="n2"), [("n1", PLAIN, None)], id="the pod is placed on another node"
        ),
        pytest.param(lambda n: n.add(PLAIN, "n2"), [("n1", PLAIN, None)], id="the pod is nominated to another node"),
        pytest.param(lambda n: n.add(PLAIN, ""), [("n1", PLAIN, None)], id="the nomination is cleared"),
        pytest.param(lambda n: n.add(SMALLER, "n1"), [("n1", PLAIN, SMALLER)], id="the pod changes its requests"),
        pytest.param(lambda n: n.add(PLAIN, "n1"), [], id="nothing changes"),
    ],
)
def test_freed_nominations(change: Callable[[Nominator], None], freed: list[tuple[str, Pod, Pod | None]]) -> None:
    nominator = nominated("n1")
    change(nominator)
    assert nominator.take_freed() == freed
    assert nominator.take_freed() == []


def test_version_changes_with_every_change() -> None:
    nominator = Nominator()
    versions = [nominator.version]
    for name, node_name in (("a", "n1"), ("b", "n1"), ("b", ""), ("a", "n2"), ("a", "")):
        nominator.add(pod(name).build(), node_name)
        versions.append(nominator.version)
    assert sorted({*versions}) == versions
