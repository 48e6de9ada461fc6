"""The combined result of several PostFilter plugins."""

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
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.instrument import Instrument, Point
from pyscheduler.core.scheduling.extension_points import PostFilterResult, PostFilterReturn, run_post_filter_plugins
from pyscheduler.testing import pod

VICTIM = pod("victim").build()
RESOLVABLE, UNRESOLVABLE = Rejection("not a", "nor b"), Rejection("never", resolvable=False)


class Returns(PostFilterPlugin):
    """Return or raise a fixed result."""

    name = "Returns"

    def __init__(self, answer: PostFilterReturn | Exception) -> None:
        super().__init__(None, empty_handle())
        self._answer = answer

    def post_filter(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> Nominate | ClearNomination | Rejection:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def run(*answers: PostFilterReturn | Exception) -> PostFilterResult:
    plugins = tuple(Returns(answer) for answer in answers)
    return run_post_filter_plugins(plugins, Cycle(0.0, "p", "u"), pod().build(), Diagnosis(1), Instrument())


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param((), PostFilterResult("", ""), id="no plugins: nomination is cleared"),
        pytest.param((RESOLVABLE,), PostFilterResult("not a, nor b"), id="rejection"),
        pytest.param((RESOLVABLE, Rejection("c")), PostFilterResult("not a, nor b, c"), id="reasons of all plugins"),
        pytest.param(
            (RESOLVABLE, Nominate("n1", (VICTIM,)), UNRESOLVABLE),
            PostFilterResult("", "n1", (VICTIM,), "Returns", Code.SUCCESS, ("not a", "nor b")),
            id="success",
        ),
        pytest.param(
            (RESOLVABLE, UNRESOLVABLE, RESOLVABLE),
            PostFilterResult("never", code=UNRESOLVABLE.code),
            id="unresolvable rejection ends the point",
        ),
        pytest.param(
            (RESOLVABLE, StatusError("gone"), RESOLVABLE),
            PostFilterResult("gone", code=Code.ERROR),
            id="error ends the point",
        ),
        pytest.param(
            (ClearNomination(RESOLVABLE), Rejection("c")),
            PostFilterResult("not a, nor b, c", ""),
            id="nomination is cleared",
        ),
        pytest.param(
            (ClearNomination(UNRESOLVABLE), RESOLVABLE),
            PostFilterResult("never", "", code=UNRESOLVABLE.code),
            id="unresolvable rejection clears nomination",
        ),
        pytest.param(
            (ClearNomination(RESOLVABLE), StatusError("e")),
            PostFilterResult("e", code=Code.ERROR),
            id="error keeps the nomination",
        ),
        pytest.param(
            (ClearNomination(RESOLVABLE), Nominate("n")),
            PostFilterResult("", "n", (), "Returns", Code.SUCCESS, ("not a", "nor b")),
            id="later plugin nominates",
        ),
    ],
)
def test_combined_result(answers: tuple[PostFilterReturn, ...], expected: PostFilterResult) -> None:
    assert run(*answers) == expected


def test_exception_names_the_plugin() -> None:
    with pytest.raises(PluginFailed, match='PostFilter plugin "Returns": ValueError: oh'):
        run(ValueError("oh"))


def test_extension_point_duration_is_recorded_with_status() -> None:
    recorded: list[tuple[str, ...]] = []

    class Timed(Point):
        def __init__(self, *names: str) -> None:
            self.names = names

        def leave(self, status: str = "Success") -> None:
            recorded.append((*self.names, status))

        def fail(self) -> None:
            self.leave("Error")

    class Timing(Instrument):
        def point(self, point: str, profile: str) -> Point:
            return Timed(point, profile)

    timing = Timing()
    run_post_filter_plugins((Returns(UNRESOLVABLE),), Cycle(0.0, "p", "u"), pod().build(), Diagnosis(1), timing)
    with pytest.raises(PluginFailed):
        run_post_filter_plugins((Returns(ValueError()),), Cycle(0.0, "p", "u"), pod().build(), Diagnosis(1), timing)
    assert recorded == [("PostFilter", "p", status) for status in ("UnschedulableAndUnresolvable", "Error")]
