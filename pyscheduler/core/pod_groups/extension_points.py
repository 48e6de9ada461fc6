"""Runs the extension points of the pod group cycle: PlacementFeasible and PodGroupPostFilter."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct

from pyscheduler.api.outcome import Rejection
from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroup
from pyscheduler.api.pod_group_cycle import NominateGroup, Placement
from pyscheduler.core.context import Context
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.pod_groups.members import SINGLE_POD
from pyscheduler.core.pod_groups.placement_candidates import scheduled_members
from pyscheduler.core.scheduling.failure import UNSCHEDULABLE, Failure
from pyscheduler.core.scheduling.failure_handler import report_plugin_failure

PLACEMENT_FEASIBLE: Final = "PlacementFeasible"
POD_GROUP_POST_FILTER: Final = "PodGroupPostFilter"


def check_placement(context: Context, group: PodGroup, pending: Collection[Pod]) -> Failure | None:
    """Return why a plugin rejects the nodes of the group's pods, or None. `pending` are those placed now, and not."""
    state = context.groups.get(group.key)
    if not pending or state is None or group.key.api == SINGLE_POD:
        return None
    profile = context.profiles[next(iter(pending)).scheduler_name]
    if not profile.placement_feasible:
        return None
    members = scheduled_members(context, group)
    placement = Placement(group, members, [pod for pod in pending if pod.uid not in state.placed])
    with context.instrument.point(PLACEMENT_FEASIBLE, profile.name) as point:
        for plugin in profile.placement_feasible:
            try:
                rejection = call_guarded(plugin.name, PLACEMENT_FEASIBLE, plugin.placement_feasible, placement)
            except PluginFailed as failed:
                report_plugin_failure(context, failed)
                return Failure.of_plugin(failed)
            if rejection is not None:
                point.status = rejection.code.camel
                text = f"pod group {group.key} may not be placed so: {rejection.message}."
                return Failure(text, UNSCHEDULABLE, frozenset({plugin.name}), nominate="")
    return None


class PostFilterOutcome(Struct, frozen=True):
    """Outcome of PodGroupPostFilter."""

    nominated: NominateGroup | None = None
    plugin: str = ""
    """Name of the plugin that nominated."""
    reasons: tuple[str, ...] = ()
    """Reasons of the plugins that did not help."""
    is_final: bool = False
    """True if preemption must not be tried."""


def run_pod_group_post_filter(
    context: Context, group: PodGroup, pods: Sequence[Pod], message: str
) -> PostFilterOutcome:
    """Run the plugins in order until one nominates, or rejects as unresolvable, or fails."""
    profile = context.profiles[pods[0].scheduler_name]
    if not profile.pod_group_post_filter:
        return PostFilterOutcome()
    reasons: list[str] = []
    with context.instrument.point(POD_GROUP_POST_FILTER, profile.name) as point:
        for plugin in profile.pod_group_post_filter:
            method = plugin.pod_group_post_filter
            try:
                result = call_guarded(plugin.name, POD_GROUP_POST_FILTER, method, group, pods, message)
            except PluginFailed as failed:
                report_plugin_failure(context, failed)
                return PostFilterOutcome(reasons=(*reasons, str(failed)), is_final=True)
            if not isinstance(result, Rejection):
                return PostFilterOutcome(result, plugin.name, tuple(reasons))
            point.status = result.code.camel
            reasons += result.reasons
            if not result.resolvable:
                return PostFilterOutcome(reasons=tuple(reasons), is_final=True)
    return PostFilterOutcome(reasons=tuple(reasons))
