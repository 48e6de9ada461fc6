"""Nominations: made here first, followed by the API server, ended when the pod is placed or gone."""

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


def test_a_pod_is_found_by_itself_and_by_its_node() -> None:
    nominator = nominated("n1")
    second = pod("q").nominated("n1").build()
    nominator.add(second)
    assert nominator.node_of("p") == "n1"
    assert nominator.pods_on("n1") == (PLAIN, second)
    assert list(nominator.nodes()) == ["n1"]
    assert (len(nominator), "q" in nominator, nominator.pods_on("n2")) == (2, True, ())


def test_a_second_nomination_replaces_the_first_and_an_empty_one_ends_it() -> None:
    nominator = nominated("n1")
    nominator.add(PLAIN, "n2")
    assert (nominator.pods_on("n1"), nominator.pods_on("n2")) == ((), (PLAIN,))
    nominator.add(PLAIN, "")
    assert len(nominator) == 0
    assert list(nominator.nodes()) == []


def test_other_rivals_have_another_version() -> None:
    nominator, other = Nominator(), pod("other").build()

    def seen(by: Pod) -> tuple[tuple[int, str], list[str]]:
        return nominator.rivals_version(by, "n1"), [rival.uid for rival in nominator.rivals(by, "n1")]

    told = [seen(other)]
    for step in ((PLAIN, "n1"), (pod("q").build(), "n1"), (pod("elsewhere").build(), "n2"), (PLAIN, ""), (other, "n1")):
        nominator.add(*step)
        told += [seen(PLAIN), seen(other)]
    nominator.remove("q")
    nominator.remove("other")
    told.append(seen(other))
    assert [rivals for _, rivals in told[:3]] == [[], [], ["p"]]
    assert all(mine[0] != yours[0] for mine in told for yours in told if mine[1] != yours[1])
    assert told[0] == told[-1], "with nobody there it is as it was"


def test_a_bound_pod_is_not_nominated() -> None:
    nominator = Nominator()
    nominator.add(pod("p").nominated("n1").on("n2").build())
    assert len(nominator) == 0


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [("", "", "n1"), ("", "n2", "n2"), ("n1", "n2", "n2"), ("n1", "", ""), ("n1", "n1", "n1"), ("n0", "n0", "n1")],
    ids=["not yet written", "written by another", "moved", "taken back", "unchanged", "the one before"],
)
def test_an_update_follows_the_status_unless_it_does_not_know_yet(old: str, new: str, expected: str) -> None:
    nominator = nominated("n1")
    version = pod("p").nominated(new).build()
    nominator.update(pod("p").nominated(old).build(), version)
    assert nominator.node_of("p") == expected
    assert nominator.pods_on(expected) == ((version,) if expected else ())


def test_what_was_taken_back_here_stays_so_until_the_status_names_a_node_anew() -> None:
    nominator, before = Nominator(), pod("p").nominated("n1").build()
    nominator.add(before)
    nominator.add(before, "")
    nominator.update(before, pod("p").nominated("n1").label("x").build())
    assert (nominator.nominated_node(before), len(nominator)) == ("", 0)
    nominator.update(before, PLAIN)
    nominator.update(PLAIN, before)
    assert nominator.nominated_node(before) == "n1"


@pytest.mark.parametrize(("status", "here", "promised"), [("", "n1", "n1"), ("n0", "n1", "n1"), ("n0", "", "n0")])
def test_what_was_decided_here_goes_before_the_status(status: str, here: str, promised: str) -> None:
    nominator, subject = Nominator(), pod("p").nominated(status).build()
    if here:
        nominator.add(subject, here)
    assert nominator.nominated_node(subject) == promised


def test_an_update_nominates_nobody_by_itself() -> None:
    nominator = Nominator()
    nominator.update(PLAIN, pod("p").label("x").build())
    assert len(nominator) == 0


def test_a_pod_that_comes_with_a_nomination_has_it_once_it_is_active() -> None:
    world = QueueFixture(gates=(Gate(closed_to=["gated"]),))
    world.add(pod("p").nominated("n1").build(), pod("gated").nominated("n2").build())
    assert world.queue.nominator.node_of("p") == "n1"
    assert "gated" not in world.queue.nominator


@pytest.mark.parametrize("tier", ["active", "backoff", "unschedulable"])
def test_updates_in_any_tier_reach_the_nominator(tier: str) -> None:
    world = QueueFixture()
    world.add("p")
    if tier != "active":
        world.try_and_fail(*(["Fit"] if tier == "unschedulable" else []))
    assert world.queue.pending_counts()[tier] == 1
    world.queue.update(pod("p").build(), pod("p").nominated("n1").build(), [], world.now)
    assert world.queue.nominator.node_of("p") == "n1"
    world.queue.delete("p")
    assert len(world.queue.nominator) == 0


SMALLER = pod("p").requests(cpu="1").build()


@pytest.mark.parametrize(
    ("change", "freed"),
    [
        pytest.param(lambda n: n.remove("p"), [("n1", PLAIN, None)], id="the pod is gone"),
        pytest.param(lambda n: n.remove("p", placed_on="n1"), [], id="the pod takes the room itself"),
        pytest.param(lambda n: n.remove("p", placed_on="n2"), [("n1", PLAIN, None)], id="it goes to another node"),
        pytest.param(lambda n: n.add(PLAIN, "n2"), [("n1", PLAIN, None)], id="it is nominated to another node"),
        pytest.param(lambda n: n.add(PLAIN, ""), [("n1", PLAIN, None)], id="its nomination ends"),
        pytest.param(lambda n: n.add(SMALLER, "n1"), [("n1", PLAIN, SMALLER)], id="it changes"),
        pytest.param(lambda n: n.add(PLAIN, "n1"), [], id="nothing changes"),
    ],
)
def test_room_that_a_nomination_held_is_freed_when(
    change: Callable[[Nominator], None], freed: list[tuple[str, Pod, Pod | None]]
) -> None:
    nominator = nominated("n1")
    change(nominator)
    assert nominator.take_freed() == freed
    assert nominator.take_freed() == []
