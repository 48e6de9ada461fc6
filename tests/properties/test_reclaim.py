"""Reclaim: the victims are the smallest set by definition, no queue is wronged, and reclaiming ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api.steps import exhaust
from pyscheduler_plugins.queues import reclaim as reclaim_module
from pyscheduler_plugins.queues import victim_search
from pyscheduler_plugins.queues.bundles import Bundle, RunningPod, bundles_of
from pyscheduler_plugins.queues.hierarchy import link_queues
from pyscheduler_plugins.queues.queue import Queue
from pyscheduler_plugins.queues.tree import JobUsage, QueueTree
from pyscheduler_plugins.queues.victim_search import _QueueBalance, _Search
from tests.properties.profiles import assert_caught, quick
from tests.properties.reclaim_model import Amounts, ElasticJob, ReclaimingCluster, Request

EXAMPLES = 150
NAMES = ["q0", "q1", "q2", "q3"]
RESOURCES = ["cpu", "memory"]


@st.composite
def queues(draw: st.DrawFn) -> list[Queue]:
    drawn: list[Queue] = []
    for name in NAMES:
        deserved = draw(st.just({}) | st.dictionaries(st.just("cpu"), st.integers(0, 12)))
        guarantee = draw(st.just({}) | st.dictionaries(st.just("cpu"), st.integers(0, 6)))
        drawn.append(
            Queue(
                name=name,
                parent=draw(st.sampled_from(["root", "root", *[each.name for each in drawn[:1]]])),
                weight=draw(st.integers(0, 3)),
                deserved=deserved,
                guarantee={r: min(n, deserved.get(r, n)) for r, n in guarantee.items()},
                reclaimable=draw(st.sampled_from([True, True, True, False])),
            )
        )
    return drawn


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Generate a request of a queue without running jobs, and jobs of the other queues."""
    tree = QueueTree(link_queues(draw(queues())))
    *others, queue = (name for name in NAMES if not tree.children(name))
    resources = RESOURCES[: draw(st.integers(1, 2))]
    bundles = []
    for job in range(draw(st.integers(1, 3))):
        in_queue, count = draw(st.sampled_from(others)), draw(st.integers(1, 3))
        amounts = {r: draw(st.integers(1, 5)) for r in resources}
        pods = [RunningPod(f"{job}-{i}", amounts, float(i)) for i in range(count)]
        tree.set_usage(job, in_queue, JobUsage({r: count * n for r, n in amounts.items()}))
        bundles += bundles_of(str(job), in_queue, pods, draw(st.integers(0, count)), draw(st.integers(0, 1)))
    wanted: Amounts = {r: draw(st.integers(1, 7)) for r in resources}
    tree.set_usage("request", queue, JobUsage({}, wanted))
    free = dict.fromkeys(resources, draw(st.integers(0, 1)))
    tree.set_capacity({r: n + tree.allocated("root").get(r, 0) for r, n in free.items()})
    return Request(tree, queue, wanted, free, bundles[:7])


def find_victims(request: Request, bundles: list[Bundle]) -> reclaim_module.Reclaim:
    return exhaust(reclaim_module.find_victims(request.tree, request.queue, request.amounts, request.free, bundles))


def may_reclaim_from(request: Request, queue: str) -> bool:
    return reclaim_module.may_reclaim_from(request.tree, request.queue, request.amounts, queue)


def check_victims(request: Request) -> None:
    """The victims serve the request at the least cost of all sets; without victims, no set serves it."""
    found = find_victims(request, request.bundles)
    may_be_listed = [each for each in request.bundles if may_reclaim_from(request, each.queue)]
    assert find_victims(request, may_be_listed) == found, "bundles of queues that are not listed matter"
    if not request.missing:
        assert found == reclaim_module.Reclaim()
    elif found.reason:
        assert not found.victims
        assert request.least_cost() is None
    else:
        assert not request.exceeds_deserved(request.queue)
        assert request.serves(found.victims)
        assert request.cost(found.victims) == pytest.approx(request.least_cost())
        # Not more than one bundle above the need: none can be left out.
        for bundle in found.victims:
            assert not request.frees_enough([each for each in found.victims if each is not bundle])


@quick(EXAMPLES)
@given(requests())
def test_victims_are_the_smallest_set_that_serves(request_: Request) -> None:
    check_victims(request_)


def check_few_of_each_kind(request: Request) -> None:
    """Equal bundles that are left out of the search change nothing."""
    found = find_victims(request, request.bundles)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(victim_search, "_few_of_each_kind", lambda candidates, _: list(candidates))
        assert find_victims(request, request.bundles) == found


@quick(EXAMPLES)
@given(requests())
def test_equal_bundles_that_are_left_out_change_nothing(request_: Request) -> None:
    check_few_of_each_kind(request_)


def test_needed_bundle_that_is_left_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_too_few(most: int, same: Any, key: Any) -> Any:
        return sorted(same, key=key)[: most - 1]

    monkeypatch.setattr(victim_search, "nsmallest", one_too_few)
    assert_caught(check_few_of_each_kind, requests(), AssertionError, examples=1000)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[QueueTree, list[ElasticJob]]:
    tree = QueueTree(link_queues(draw(queues())), {"cpu": draw(st.integers(1, 24))})
    leaves = [name for name in NAMES if not tree.children(name)]
    jobs = []
    for i in range(draw(st.integers(1, 6))):
        size = draw(st.integers(1, 6))
        jobs.append(
            ElasticJob(
                f"j{i}", draw(st.sampled_from(leaves)), size, draw(st.integers(1, size)), draw(st.integers(1, 5))
            )
        )
    return tree, jobs


def check_convergence(drawn: tuple[QueueTree, list[ElasticJob]]) -> None:
    """After each new job the cluster comes to rest, though evicted pods wait to start again."""
    tree, jobs = drawn
    cluster = ReclaimingCluster(tree)
    for job in jobs:
        cluster.add(job)
        assert cluster.settle(40), cluster.evictions


@quick(EXAMPLES)
@given(clusters())
def test_reclaiming_ends(drawn: tuple[QueueTree, list[ElasticJob]]) -> None:
    check_convergence(drawn)


# -- planted bugs --------------------------------------------------------------------------------------------------


def _no_limit(*_: Any) -> dict[str, Any]:
    return {}


def _keep_all(search: Any) -> None:
    if search.best is None:
        search.best = [candidate.bundle for candidate in search._chosen]
        search._best_cost = (0, (0, 0, 0), 0.0)


def _always(*_: Any) -> bool:
    return True


def _none(*_: Any) -> None:
    pass


PLANTED: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "the reclaiming queue may exceed its deserved amounts": (reclaim_module, "_excesses", _no_limit),
    "the first set is taken as it is": (_Search, "_record", _keep_all),
    "guarantees are ignored": (_Search, "_keeps_guarantees", _always),
    "any bundle may take its queue below its deserved amounts": (_QueueBalance, "allows", _always),
    "queues that are not reclaimable are victims": (reclaim_module._CandidateBundles, "_protected", _none),
}


@pytest.mark.parametrize("bug_name", PLANTED)
def test_planted_bug_is_found(bug_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, bug = PLANTED[bug_name]
    monkeypatch.setattr(owner, name, bug)
    assert_caught(check_victims, requests(), AssertionError, examples=1000)


def test_queue_that_is_wrongly_not_listed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def first_resource(tree: QueueTree, queue: str, request: Amounts, other: str) -> bool:
        return may_reclaim(tree, queue, dict(list(request.items())[:1]), other)

    may_reclaim = reclaim_module.may_reclaim_from
    monkeypatch.setattr(reclaim_module, "may_reclaim_from", first_resource)
    assert_caught(check_victims, requests(), AssertionError, examples=1000, match="not listed")


def test_planted_endless_reclaim_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reclaim_module, "_excesses", _no_limit)
    assert_caught(check_convergence, clusters(), AssertionError, examples=1000)
