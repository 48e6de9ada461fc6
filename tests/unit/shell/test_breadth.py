"""As many bindings under way as the API server works on at once."""

from __future__ import annotations

import pytest

from pyscheduler.shell.breadth import FEWEST, Breadth

MOST = 16


def after(seconds_of: list[float]) -> float:
    """The limit after calls that took so long."""
    breadth = Breadth(MOST)
    for seconds in seconds_of:
        breadth.took(seconds)
    return breadth.limit


class Server:
    """Works on so many calls at once, each of which takes `seconds`; the others wait."""

    def __init__(self, at_once: int, seconds: float) -> None:
        self.at_once, self.seconds = at_once, seconds

    def answers(self, under_way: float) -> float:
        return self.seconds * max(1.0, under_way / self.at_once)


@pytest.mark.parametrize(
    ("server", "least", "most"),
    [
        pytest.param(Server(100, 0.01), MOST, MOST, id="a big one is asked for all that is allowed"),
        pytest.param(Server(2, 0.003), 11, 13, id="a small one is not asked to let many wait"),
        pytest.param(Server(1, 0.003), 5, 7, id="a tiny one still is asked for some"),
    ],
)
def test_it_settles_at_what_the_server_can_do(server: Server, least: float, most: float) -> None:
    breadth = Breadth(MOST)
    breadth.took(server.seconds)
    for _ in range(500):
        breadth.took(server.answers(breadth.limit))
    assert least <= breadth.limit <= most


def test_one_slow_call_changes_little() -> None:
    assert after([0.01] * 200 + [5.0]) > MOST - 1


def test_a_server_that_becomes_slower_for_good_is_not_starved_for_ever() -> None:
    quick, slow = [0.001] * 100, [0.01] * 4500
    assert after(quick + slow[:100]) == FEWEST
    assert after(quick + slow) == MOST


def test_what_was_quick_under_load_is_not_taken_for_the_best() -> None:
    breadth, server = Breadth(MOST), Server(1, 0.003)
    for _ in range(9000):
        breadth.took(server.answers(breadth.limit))
    assert breadth.limit < 8
