"""As many bindings under way as keep the API server busy, and no longer waiting than is good."""

from __future__ import annotations

import pytest

from pyscheduler.shell.binding.breadth import FEW, FEWEST, LONG, MANY, SEVERAL, SMALL, Breadth

WORKERS = 128
LARGE = SMALL + 1
"""Nodes."""


def after(seconds_of: list[float], workers: int = WORKERS) -> Breadth:
    """The limits after calls that took so long."""
    breadth = Breadth(workers)
    for seconds in seconds_of:
        breadth.took(seconds)
    return breadth


def narrow(breadth: Breadth) -> float:
    """The most for pods that mind others."""
    return breadth.most(waiting=1, nodes=LARGE, minds_others=True)


def short(breadth: Breadth, nodes: int = LARGE) -> float:
    """The most for a short burst of others."""
    return breadth.most(waiting=1, nodes=nodes, minds_others=False)


class Server:
    """Works on so many calls at once, each of which takes `seconds`; the others wait."""

    def __init__(self, at_once: int, seconds: float) -> None:
        self.at_once, self.seconds = at_once, seconds

    def answers(self, under_way: float) -> float:
        return self.seconds * max(1.0, under_way / self.at_once)


@pytest.mark.parametrize(
    ("server", "least", "most"),
    [
        pytest.param(Server(100, 0.01), FEW, FEW, id="a big one is asked for all that is allowed"),
        pytest.param(Server(1, 0.003), 5, 7, id="a small one is not asked to let many wait"),
    ],
)
def test_for_pods_that_mind_others_it_settles_at_what_the_server_can_do(
    server: Server, least: float, most: float
) -> None:
    breadth = after([server.seconds])
    for _ in range(500):
        breadth.took(server.answers(narrow(breadth)))
    assert least <= narrow(breadth) <= most


def test_one_slow_call_changes_little() -> None:
    assert narrow(after([0.01] * 200 + [5.0])) > FEW - 1


def test_a_server_that_becomes_slower_for_good_is_not_starved_for_ever() -> None:
    quick, slow = [0.001] * 100, [0.01] * 4500
    assert narrow(after(quick + slow[:100])) == FEWEST
    assert narrow(after(quick + slow)) == FEW


def test_what_was_quick_under_load_is_not_taken_for_the_best() -> None:
    breadth, server = Breadth(WORKERS), Server(1, 0.003)
    for _ in range(9000):
        breadth.took(server.answers(narrow(breadth)))
    assert narrow(breadth) < 8


QUICK = [0.01]
"""What a server at rest takes: so one that takes ten times as long is under load."""


@pytest.mark.parametrize(
    ("seconds_of", "of_long", "of_short"),
    [
        pytest.param([], FEW, FEW, id="a start opens a few connections"),
        pytest.param(QUICK + [0.1] * int(FEW), 2 * FEW + 1, FEW, id="twice as many once they have answered"),
        pytest.param(QUICK + [0.1] * 1000, WORKERS, FEW, id="and all in the end, though each waits for others"),
        pytest.param(QUICK + [0.1] * 1000 + [2 * LONG] * 28, 100, FEW, id="calls that take very long make it fewer"),
        pytest.param(QUICK + [2 * LONG] * 1000, FEWEST, FEWEST, id="down to a few"),
    ],
)
def test_a_burst_goes_wide_if_it_is_a_long_one(seconds_of: list[float], of_long: float, of_short: float) -> None:
    breadth = after(seconds_of)
    assert breadth.most(waiting=MANY - 1, nodes=LARGE, minds_others=False) == of_short
    assert breadth.most(waiting=MANY, nodes=LARGE, minds_others=False) == of_long


@pytest.mark.parametrize(
    ("server", "least", "most"),
    [
        pytest.param(Server(1000, 0.03), 90, WORKERS, id="one whose calls wait for a disk is asked for more and more"),
        pytest.param(Server(16, 0.005), 48, 60, id="until they wait for each other"),
        pytest.param(Server(2, 0.005), FEW, FEW, id="one that has its hands full is not"),
    ],
)
def test_a_short_burst_has_more_under_way_where_that_makes_nobody_wait(
    server: Server, least: float, most: float
) -> None:
    breadth = after([server.seconds])
    for _ in range(1000):
        breadth.took(server.answers(short(breadth)))
    assert least <= short(breadth) <= most


@pytest.mark.parametrize(
    ("seconds_of", "in_small", "in_large"),
    [
        pytest.param([], FEW, FEW, id="a start opens a few connections in either"),
        pytest.param(QUICK + [0.1] * 3, FEW + 4, FEW, id="one more for each that was answered"),
        pytest.param(QUICK + [0.1] * 1000, SEVERAL, FEW, id="until there are several"),
        pytest.param(QUICK * 400, FEW + 50, FEW + 50, id="where nobody waits for others there are as many in either"),
        pytest.param(QUICK + [2 * LONG] * 1000, FEWEST, FEWEST, id="and where all take very long as few"),
    ],
)
def test_a_short_burst_has_more_under_way_in_a_small_cluster(
    seconds_of: list[float], in_small: float, in_large: float
) -> None:
    breadth = after(seconds_of)
    assert [short(breadth, nodes) for nodes in (1, SMALL, LARGE)] == [in_small, in_small, in_large]


def test_a_server_that_becomes_slower_has_more_again_once_the_quick_calls_are_long_ago() -> None:
    quick, slow = [0.001] * 100, [0.01] * 7000
    assert short(after(quick + slow[:5000])) == FEW
    assert short(after(quick + slow)) > 2 * FEW


def test_a_long_burst_is_one_until_nobody_waits() -> None:
    breadth = after(QUICK + [0.1] * 1000)
    waiting = [MANY - 1, MANY, 1, 0, MANY - 1]
    most = [breadth.most(each, LARGE, minds_others=False) for each in waiting]
    assert most == [FEW, WORKERS, WORKERS, FEW, FEW]


def test_pods_that_mind_others_go_a_few_at_a_time_however_many_wait() -> None:
    breadth = after([0.1] * 1000)
    assert [breadth.most(10 * MANY, nodes, minds_others=True) for nodes in (SMALL, LARGE)] == [FEW, FEW]


def test_there_are_never_more_than_there_are_workers() -> None:
    breadth = after([0.01] * 1000, workers=2)
    assert {breadth.most(waiting, SMALL, minds) for waiting in (1, MANY) for minds in (True, False)} == {2}
