"""Parked pods that an attempt would bind or nominate."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.outcome import Code, Status
from pyscheduler.api.pod import Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.context import Context
from pyscheduler.core.framework import score_plugins
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.queue import Tier
from pyscheduler.core.scheduling.extension_points import run_post_filter_plugins
from pyscheduler.core.scheduling.profile_runtime import ProfileRuntime
from pyscheduler.core.scheduling.schedule_pod import ScheduleResult, schedule_pod

_ALWAYS_PER_NODE = 10**9


class Missed(NamedTuple):
    """A parked pod that an attempt would bind, or nominate by preemption, and the plugins that rejected it."""

    pod: str
    rejected_by: tuple[str, ...]
    result: str

    def __str__(self) -> str:
        return f"{self.pod}, rejected by {', '.join(self.rejected_by)}, stays parked and {self.result}"


def missed(context: Context, preemptors: Collection[str]) -> list[Missed]:
    """Return every parked pod that an uncached attempt with per-node calls would bind or nominate.

    `preemptors` holds the UIDs of the pods with evicted victims.
    """
    found = []
    with _per_node_calls():
        for queued in _parked(context):
            result = _attempt(context, queued.pod, preemptors)
            if result:
                found.append(Missed(queued.pod.key, tuple(sorted(queued.rejectors)), result))
    return found


def parked(context: Context) -> int:
    """Return the number of pods that `missed` evaluates."""
    return len(_parked(context))


def _parked(context: Context) -> list[QueuedPod]:
    """Return the pods that only an event can requeue, except those that a PreEnqueue plugin rejects."""
    tiers = context.queue.known()
    waiting = [q for tier, q in tiers if tier in (Tier.UNSCHEDULABLE, Tier.GATED) and not q.pod.deleting]
    return [q for q in waiting if _may_enter(context.profiles[q.pod.scheduler_name], q.pod)]


def _may_enter(profile: Profile, pod: Pod) -> bool:
    return all(plugin.pre_enqueue(pod) is None for plugin in profile.pre_enqueue)


def _attempt(context: Context, pod: Pod, preemptors: Collection[str]) -> str:
    """Return the result of an attempt made now; "" if it would fail again.

    Preemption counts for pods with victims evicted from their nominated node, even if the resources freed there never
    suffice. For other pods only the rejecting plugins are known, not those that make preemption unhelpful.
    """
    profile, cycle = context.profiles[pod.scheduler_name], Cycle(0.0, pod.scheduler_name, pod.uid)
    runtime = ProfileRuntime.of(profile, context.state, context.queue.nominator, Instrument())
    try:
        choice = schedule_pod(runtime, cycle, pod)
        if isinstance(choice, ScheduleResult):
            return f"fits {choice.node.name}"
        nominated = context.queue.nominator.node_of.get(pod.uid, "")
        if not choice.total_nodes or not nominated or pod.uid not in preemptors:
            return ""
        outcome = run_post_filter_plugins(profile.post_filter, cycle, pod, choice, Instrument())
    except PluginFailed:
        return ""
    if not outcome.nominate or _waits_for_victims(context, pod, nominated, choice.status_of(nominated)):
        return ""
    return f"would get {outcome.nominate} by preemption"


def _waits_for_victims(context: Context, pod: Pod, node_name: str, status: Status | None) -> bool:
    """Return True if pods that can be preempted are terminating on the node: the pod is retried once one is gone."""
    node = context.state.info(node_name)
    if node is None or status is None or status.code is not Code.UNSCHEDULABLE:
        return False
    return any(other.deleting and other.priority < pod.priority for other in node.pods.values())


@contextmanager
def _per_node_calls() -> Iterator[None]:
    original, score_plugins.FEW = score_plugins.FEW, _ALWAYS_PER_NODE
    try:
        yield
    finally:
        score_plugins.FEW = original
