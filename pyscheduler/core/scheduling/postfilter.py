"""The PostFilter extension point: plugins make room for a pod that fits no node.

Matches kube-scheduler's RunPostFilterPlugins: a success, an unresolvable rejection or an error ends the point and is
its only result; the reasons of other rejections are collected.
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
from pyscheduler.core.framework.result_checks import check_result
from pyscheduler.core.instrument import Instrument

T = TypeVar("T")
POST_FILTER = "PostFilter"
Answer = Nominate | ClearNomination | Rejection | StatusError
PostFilterSteps = Generator[None, None, T]


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """Result of the extension point: message for the user, nominated node and victims."""

    message: str = ""
    nominate: str | None = None
    """None leaves the nomination unchanged, "" clears it."""
    evict: tuple[Pod, ...] = ()
    plugin: str = ""
    """Name of the plugin that nominated the node, "" if none did."""
    code: Code = Code.UNSCHEDULABLE
    earlier_reasons: tuple[str, ...] = ()
    """Reasons of the plugins that ran before the one that nominated the node."""


class PreemptionDryRun(PostFilterPlugin):
    """Wrapper of a preemption plugin that searches all nodes and stores the search without evicting anything."""

    def __init__(self, plugin: PreemptionPlugin) -> None:
        super().__init__(plugin.args, plugin.handle)
        self.name = plugin.name  # type: ignore[misc]  # per instance, not per class
        self.plugin = plugin
        self.found: PreemptionSearch | None = None

    def search(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> PreemptionSearch:
        """Return the plugin's search, made at the first call."""
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
        rejection = Rejection(*([search.message] if search.message else []), resolvable=resolvable)
        return ClearNomination(rejection) if search.nominated_node == "" else rejection


def run_post_filter(
    plugins: tuple[PostFilterPlugin, ...], cycle: Cycle, pod: Pod, diagnosis: Diagnosis, instrument: Instrument
) -> PostFilterResult:
    """Run the plugins in order. PluginFailed if one raises."""
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
    """Run PostFilter in steps of a few milliseconds. If the state changes in between, close the generator."""
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
        result = yield from _call(plugin, cycle, pod, diagnosis)
        if isinstance(plugin, PreemptionPlugin):
            instrument.preemption_attempted()
        if isinstance(result, Nominate):
            return PostFilterResult("", result.node_name, result.evict, plugin.name, Code.SUCCESS, tuple(reasons))
        if isinstance(result, StatusError):
            return PostFilterResult(str(result), code=Code.ERROR)
        if isinstance(result, ClearNomination):
            nominate, result = "", result.rejection
        if result.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return PostFilterResult(result.message, nominate, code=result.code)
        reasons.extend(result.reasons)
    return PostFilterResult(", ".join(reasons), nominate)


def _call(plugin: PostFilterPlugin, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> PostFilterSteps[Answer]:
    """Return the plugin's result; each step is timed as a call of the plugin if the attempt has an observer."""
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
                check_result(POST_FILTER, plugin.post_filter, result)
                return result
            yield
    except StatusError as status:
        return status
    except BaseException as error:
        raise_plugin_failed(plugin.name, POST_FILTER, error)


def _step(steps: PostFilterSteps[Answer]) -> StopIteration | None:
    """Run one step. Return the StopIteration with the result if it was the last one."""
    try:
        next(steps)
    except StopIteration as end:
        return end
    return None
