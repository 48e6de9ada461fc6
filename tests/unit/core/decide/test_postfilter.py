"""What the answers of PostFilter plugins come to together."""

from __future__ import annotations

import pytest

from pyscheduler.api import (
    ClearNomination,
    Code,
    Cycle,
    Diagnosis,
    Nominate,
    Pod,
    PostFilterPlugin,
    Rejection,
    StatusError,
)
from pyscheduler.core.decide.postfilter import Answer, PostFilterResult, run_post_filter
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.instrument import Instrument, Point
from pyscheduler.testing import pod

VICTIM = pod("victim").build()
NO, NEVER = Rejection("not a", "nor b"), Rejection("never", resolvable=False)


class Returns(PostFilterPlugin):
    """Gives a fixed answer."""

    name = "Returns"

    def __init__(self, answer: Answer | Exception) -> None:
        super().__init__(None, CoreHandle())
        self._answer = answer

    def post_filter(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> Nominate | ClearNomination | Rejection:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def outcome(*answers: Answer | Exception) -> PostFilterResult:
    plugins = tuple(Returns(answer) for answer in answers)
    return run_post_filter(plugins, Cycle(0.0, "p", "u"), pod().build(), Diagnosis(1), Instrument())


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param((), PostFilterResult("", ""), id="nobody to ask: an old nomination is void"),
        pytest.param((NO,), PostFilterResult("not a, nor b"), id="no"),
        pytest.param((NO, Rejection("c")), PostFilterResult("not a, nor b, c"), id="what all said"),
        pytest.param(
            (NO, Nominate("n1", (VICTIM,)), NEVER),
            PostFilterResult("", "n1", (VICTIM,), "Returns", Code.SUCCESS, ("not a", "nor b")),
            id="success",
        ),
        pytest.param(
            (NO, NEVER, NO), PostFilterResult("never", code=NEVER.code), id="an unresolvable no is the only word"
        ),
        pytest.param((NO, StatusError("gone"), NO), PostFilterResult("gone", code=Code.ERROR), id="so is an error"),
        pytest.param(
            (ClearNomination(NO), Rejection("c")), PostFilterResult("not a, nor b, c", ""), id="the nomination is void"
        ),
        pytest.param((ClearNomination(NEVER), NO), PostFilterResult("never", "", code=NEVER.code), id="for good"),
        pytest.param(
            (ClearNomination(NO), StatusError("e")), PostFilterResult("e", code=Code.ERROR), id="an error keeps it"
        ),
        pytest.param(
            (ClearNomination(NO), Nominate("n")),
            PostFilterResult("", "n", (), "Returns", Code.SUCCESS, ("not a", "nor b")),
            id="another helps",
        ),
    ],
)
def test_answers_together(answers: tuple[Answer, ...], expected: PostFilterResult) -> None:
    assert outcome(*answers) == expected


def test_a_plugin_that_raises_is_named() -> None:
    with pytest.raises(PluginFailed, match='PostFilter plugin "Returns": ValueError: oh'):
        outcome(ValueError("oh"))


def test_the_point_is_timed_with_what_came_of_it() -> None:
    told: list[tuple[str, ...]] = []

    class Timed(Point):
        def __init__(self, *names: str) -> None:
            self.names = names

        def leave(self, status: str = "Success") -> None:
            told.append((*self.names, status))

        def broken(self) -> None:
            self.leave("Error")

    class Timing(Instrument):
        def point(self, point: str, profile: str) -> Point:
            return Timed(point, profile)

    timing = Timing()
    run_post_filter((Returns(NEVER),), Cycle(0.0, "p", "u"), pod().build(), Diagnosis(1), timing)
    with pytest.raises(PluginFailed):
        run_post_filter((Returns(ValueError()),), Cycle(0.0, "p", "u"), pod().build(), Diagnosis(1), timing)
    assert told == [("PostFilter", "p", status) for status in ("UnschedulableAndUnresolvable", "Error")]
