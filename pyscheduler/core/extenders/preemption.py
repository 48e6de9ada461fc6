"""PostFilter with extenders: they reduce the preemption candidates before one is selected.

Matches callExtenders of kube-scheduler's preemption framework, except that the extenders receive every candidate:
kube-scheduler stops its search once it has enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.outcome import Code
from pyscheduler.api.pod import Pod
from pyscheduler.api.preemption import Candidate, PreemptionPlugin, found_placement
from pyscheduler.core.extenders.extender import (
    Extender,
    ExtenderFailed,
    ExtenderPreemptionResult,
    PreemptCall,
    Victims,
    failure_of,
)
from pyscheduler.core.extenders.session import ExtenderSession, ExtenderSteps
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.preemption.plugin_dry_run import PreemptionDryRun
from pyscheduler.core.scheduling.extension_points import PostFilterResult, run_post_filter_plugins
from pyscheduler.core.state.cluster import ClusterState

NONE_LEFT = "preemption: no candidate node for preemption"


def run_post_filter_with_extenders(
    session: ExtenderSession, profile: Profile, diagnosis: Diagnosis, state: ClusterState, instrument: Instrument
) -> ExtenderSteps[PostFilterResult]:
    """Run PostFilter, then pass the preemption candidates to the extenders. PluginFailed if a plugin raises."""
    extenders = [extender for extender in session.extenders if extender.preempts]
    if not extenders:
        return run_post_filter_plugins(profile.post_filter, session.cycle, session.pod, diagnosis, instrument)
    plugins = tuple(PreemptionDryRun(p) if isinstance(p, PreemptionPlugin) else p for p in profile.post_filter)
    result = run_post_filter_plugins(plugins, session.cycle, session.pod, diagnosis, instrument)
    dry_run = next((p for p in plugins if isinstance(p, PreemptionDryRun) and p.result is not None), None)
    if dry_run is None:
        return result
    instrument.preemption_attempted()
    if dry_run.result is None or result.plugin != dry_run.name or not dry_run.result.candidates:
        return result
    try:
        candidates = yield from _call_extenders(session, extenders, dry_run.result.candidates, state)
    except ExtenderFailed as failed:
        return PostFilterResult(f"preemption: {failed}", code=Code.ERROR)
    existing = {name: candidate for name, candidate in candidates.items() if state.info(name) is not None}
    if not existing:
        return PostFilterResult(", ".join([*result.earlier_reasons, NONE_LEFT]))
    name = dry_run.plugin.choose(existing)
    # Current versions only: victims deleted during the extender calls need no eviction.
    hosts = ((victim.uid, state.node_of(victim.uid)) for victim in existing[name].victims)
    victims = tuple(host.pods[uid] for uid, host in hosts if host is not None)
    message = found_placement(name, len(existing[name].victims))
    return PostFilterResult(message, name, victims, dry_run.name, Code.SUCCESS)


def _call_extenders(
    session: ExtenderSession, extenders: Sequence[Extender], candidates: Mapping[str, Candidate], state: ClusterState
) -> ExtenderSteps[Mapping[str, Candidate]]:
    """Return the candidates that all extenders keep, each called with the result of the previous one."""
    for extender in extenders:
        (result,) = yield from session.call(PreemptCall(extender, candidates))
        try:
            if not isinstance(result, ExtenderPreemptionResult):
                raise failure_of(result)
            candidates = _candidates_of(extender, result, candidates, state)
        except ExtenderFailed:
            if not extender.ignorable:
                raise
        if not candidates:
            break
    return candidates


def _candidates_of(
    extender: Extender, result: ExtenderPreemptionResult, candidates: Mapping[str, Candidate], state: ClusterState
) -> dict[str, Candidate]:
    """Return the candidates that an extender's result names. ExtenderFailed if it names an unknown node or pod."""
    kept = {}
    for name, victims in result.victims.items():
        pods = _pods(extender, name, victims, candidates.get(name), state)
        if pods:
            kept[name] = Candidate(pods, victims.pdb_violations)
        elif not extender.ignorable:
            raise ExtenderFailed(f'expected at least one victim pod on node "{name}"')
    return kept


def _pods(
    extender: Extender, name: str, victims: Victims, candidate: Candidate | None, state: ClusterState
) -> tuple[Pod, ...]:
    """Return the victims on one node; victims and the node itself may have been deleted during the call."""
    node = state.info(name)
    if node is None and candidate is None:
        raise ExtenderFailed(f'nodeinfo not found for node name "{name}"')
    known = {} if node is None else dict(node.pods)
    known.update({pod.uid: pod for pod in (candidate.victims if candidate is not None else ())})
    for uid in victims.uids:
        if uid not in known:
            raise ExtenderFailed(
                f"extender: {extender.url} claims to preempt pod (UID: {uid}) on node: {name}, "
                "but the pod is not found on that node"
            )
    return tuple(known[uid] for uid in victims.uids)
