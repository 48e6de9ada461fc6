"""As many bindings under way as keep the API server busy, and no longer waiting than is good."""

from __future__ import annotations

import pytest

from pyscheduler.shell.binding.breadth import FEW, FEWEST, LONG, Breadth

MOST = 128


def after(seconds_of: list[float], most: int = MOST) -> Breadth:
    """The limits after calls that took so long."""
    breadth = Breadth(most)
    for seconds in seconds_of:
        breadth.took(seconds)
    return breadth


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
        pytest.param(Server(2, 0.003), 11, 13, id="a small one is not asked to let many wait"),
        pytest.param(Server(1, 0.003), 5, 7, id="a tiny one still is asked for some"),
    ],
)
def test_for_pods_that_mind_others_it_settles_at_what_the_server_can_do(
    server: Server, least: float, most: float
) -> None:
    breadth = after([server.seconds])
    for _ in range(500):
        breadth.took(server.answers(breadth.narrow))
    assert least <= breadth.narrow <= most


def test_one_slow_call_changes_little() -> None:
    assert after([0.01] * 200 + [5.0]).narrow > FEW - 1


def test_a_server_that_becomes_slower_for_good_is_not_starved_for_ever() -> None:
    quick, slow = [0.001] * 100, [0.01] * 4500
    assert after(quick + slow[:100]).narrow == FEWEST
    assert after(quick + slow).narrow == FEW


def test_what_was_quick_under_load_is_not_taken_for_the_best() -> None:
    breadth, server = Breadth(MOST), Server(1, 0.003)
    for _ in range(9000):
        breadth.took(server.answers(breadth.narrow))
    assert breadth.narrow < 8


@pytest.mark.parametrize(
    ("seconds_of", "wide"),
    [
        pytest.param([], 8, id="a start opens a few connections"),
        pytest.param([0.1] * 8, 16, id="twice as many once they have answered"),
        pytest.param([0.1] * 1000, MOST, id="and all in the end, though each waits for others"),
        pytest.param([0.1] * 1000 + [2 * LONG] * 28, 100, id="calls that take very long make it fewer, one by one"),
        pytest.param([2 * LONG] * 1000, FEWEST, id="down to a few"),
    ],
)
def test_a_burst_goes_wide(seconds_of: list[float], wide: float) -> None:
    assert after(seconds_of).wide == wide


def test_there_are_never_more_than_there_are_workers() -> None:
    breadth = after([0.01] * 1000, most=2)
    assert (breadth.wide, breadth.narrow) == (2, 2)
