"""The PostFilter point: plugins try to make room for a pod that fits nowhere.

Matches kube-scheduler's RunPostFilterPlugins: a success, an unresolvable "no" and an error each end the point and are
all that is told; other refusals are collected.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.outcome import ClearNomination, Code, Nominate, Rejection, StatusError
from pyscheduler.api.plugin import PostFilterPlugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.preemption import PreemptionPlugin, PreemptionSearch
from pyscheduler.core.framework.plugin_failure import raise_plugin_failed
from pyscheduler.core.framework.result_checks import check_answer
from pyscheduler.core.instrument import Instrument

T = TypeVar("T")
POST_FILTER = "PostFilter"
Answer = Nominate | ClearNomination | Rejection | StatusError
PostFilterSteps = Generator[None, None, T]


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """What came of it: what users are told, the new nominated node, and who has to go from there."""

    message: str = ""
    nominate: str | None = None
    """None leaves the nomination as it is, "" takes it back."""
    evict: tuple[Pod, ...] = ()
    plugin: str = ""
    """Who nominated the pod, or "" if nobody did."""
    code: Code = Code.UNSCHEDULABLE
    earlier_reasons: tuple[str, ...] = ()
    """What the plugins before the one that nominated the pod had said."""


class PreemptionDryRun(PostFilterPlugin):
    """Stands for a preemption plugin: looks at every node, sets nothing in motion, and keeps what it has found."""

    def __init__(self, plugin: PreemptionPlugin) -> None:
        super().__init__(plugin.args, plugin.handle)
        self.name = plugin.name  # type: ignore[misc]  # it differs from one to the next
        self.plugin = plugin
        self.found: PreemptionSearch | None = None

    def search(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> PreemptionSearch:
        """The plugin's search, made once."""
        if self.found is None:
            self.found = self.plugin.search(cycle, pod, diagnosis)
        return self.found

    def post_filter(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> Nominate | ClearNomination | Rejection:
        search = self.search(cycle, pod, diagnosis)
        if search.status is Code.SUCCESS:
            return Nominate(search.nominated_node or "", search.victims)
        if search.status is Code.ERROR:
            raise StatusError(search.message)
        resolvable = search.status is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        refusal = Rejection(*([search.message] if search.message else []), resolvable=resolvable)
        return ClearNomination(refusal) if search.nominated_node == "" else refusal


def run_post_filter(
    plugins: tuple[PostFilterPlugin, ...], cycle: Cycle, pod: Pod, diagnosis: Diagnosis, instrument: Instrument
) -> PostFilterResult:
    """Ask the plugins in turn. PluginFailed if one raises."""
    steps = post_filter_steps(plugins, cycle, pod, diagnosis, instrument)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            outcome: PostFilterResult = end.value
            return outcome


def post_filter_steps(
    plugins: tuple[PostFilterPlugin, ...], cycle: Cycle, pod: Pod, diagnosis: Diagnosis, instrument: Instrument
) -> PostFilterSteps[PostFilterResult]:
    """Run PostFilter in steps of a few milliseconds. The state must not change in between: close it instead."""
    if not plugins:
        return PostFilterResult(nominate="")
    with instrument.point(POST_FILTER, cycle.profile) as point:
        outcome = yield from _run(plugins, cycle, pod, diagnosis, instrument)
        point.status = outcome.code.camel
    return outcome


def _run(
    plugins: tuple[PostFilterPlugin, ...], cycle: Cycle, pod: Pod, diagnosis: Diagnosis, instrument: Instrument
) -> PostFilterSteps[PostFilterResult]:
    nominate = None
    reasons: list[str] = []
    for plugin in plugins:
        answer = yield from _call(plugin, cycle, pod, diagnosis)
        if isinstance(plugin, PreemptionPlugin):
            instrument.preemption_attempted()
        if isinstance(answer, Nominate):
            return PostFilterResult("", answer.node_name, answer.evict, plugin.name, Code.SUCCESS, tuple(reasons))
        if isinstance(answer, StatusError):
            return PostFilterResult(str(answer), code=Code.ERROR)
        if isinstance(answer, ClearNomination):
            nominate, answer = "", answer.rejection
        if answer.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return PostFilterResult(answer.message, nominate, code=answer.code)
        reasons.extend(answer.reasons)
    return PostFilterResult(", ".join(reasons), nominate)


def _call(plugin: PostFilterPlugin, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> PostFilterSteps[Answer]:
    """The plugin's answer; each step counts as a call of the plugin where the attempt is watched."""
    try:
        steps = plugin.post_filter_steps(cycle, pod, diagnosis)
        while True:
            answer = (
                _step(steps)
                if cycle.call_observer is None
                else cycle.call_observer(plugin.name, POST_FILTER, _step, steps)
            )
            if answer is not None:
                result: Answer = answer.value
                check_answer(POST_FILTER, plugin.post_filter, result)
                return result
            yield
    except StatusError as status:
        return status
    except BaseException as error:
        raise_plugin_failed(plugin.name, POST_FILTER, error)


def _step(steps: PostFilterSteps[Answer]) -> StopIteration | None:
    """Make a step; the end of the steps, with the answer, if it was the last one."""
    try:
        next(steps)
    except StopIteration as end:
        return end
    return None
