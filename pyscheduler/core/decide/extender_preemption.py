"""PostFilter where extenders have a say: they trim the candidates of a preemption before one is chosen.

Matches the callExtenders of kube-scheduler's preemption framework, but that they see every candidate: kube-scheduler
stops looking once it has enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.outcome import Code
from pyscheduler.api.pod import Pod
from pyscheduler.api.preemption import Candidate, PreemptionPlugin
from pyscheduler.core.decide.extender_calls import ExtenderSession, ExtenderSteps
from pyscheduler.core.decide.postfilter import PostFilterResult, PreemptionDryRun, run_post_filter
from pyscheduler.core.extender import (
    Extender,
    ExtenderCallFailed,
    ExtenderFailed,
    ExtenderPreemptionResult,
    PreemptCall,
    Victims,
)
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.state.cluster import ClusterState

NONE_LEFT = "preemption: no candidate node for preemption"


def run_post_filter_with_extenders(
    session: ExtenderSession, profile: Profile, diagnosis: Diagnosis, state: ClusterState, instrument: Instrument
) -> ExtenderSteps[PostFilterResult]:
    """Ask the PostFilter plugins, then the extenders of what preemption has found. PluginFailed if a plugin raises."""
    extenders = [extender for extender in session.extenders if extender.preempts]
    if not extenders:
        return run_post_filter(profile.post_filter, session.cycle, session.pod, diagnosis, instrument)
    plugins = tuple(PreemptionDryRun(p) if isinstance(p, PreemptionPlugin) else p for p in profile.post_filter)
    said = run_post_filter(plugins, session.cycle, session.pod, diagnosis, instrument)
    dry_run = next((p for p in plugins if isinstance(p, PreemptionDryRun) and p.found is not None), None)
    if dry_run is None:
        return said
    instrument.preemption_attempted()
    if dry_run.found is None or said.plugin != dry_run.name or not dry_run.found.candidates:
        return said
    try:
        candidates = yield from _call_extenders(session, extenders, dry_run.found.candidates, state)
    except ExtenderFailed as failed:
        return PostFilterResult(f"preemption: {failed}", code=Code.ERROR)
    there = {name: candidate for name, candidate in candidates.items() if state.info(name) is not None}
    if not there:
        return PostFilterResult(", ".join([*said.earlier_reasons, NONE_LEFT]))
    name = dry_run.plugin.choose(there)
    # As they are by now: who has gone while extenders were thinking has made room already.
    hosts = ((victim.uid, state.node_of(victim.uid)) for victim in there[name].victims)
    victims = tuple(host.pods[uid] for uid, host in hosts if host is not None)
    return PostFilterResult("", name, victims, dry_run.name, Code.SUCCESS)


def _call_extenders(
    session: ExtenderSession, extenders: Sequence[Extender], candidates: Mapping[str, Candidate], state: ClusterState
) -> ExtenderSteps[Mapping[str, Candidate]]:
    """What the extenders leave of the candidates, each of what the one before has left."""
    for extender in extenders:
        (answer,) = yield from session.call(PreemptCall(extender, candidates))
        try:
            if not isinstance(answer, ExtenderPreemptionResult):
                raise ExtenderFailed(answer.message if isinstance(answer, ExtenderCallFailed) else "no answer")
            candidates = _candidates_of(extender, answer, candidates, state)
        except ExtenderFailed:
            if not extender.ignorable:
                raise
        if not candidates:
            break
    return candidates


def _candidates_of(
    extender: Extender, answer: ExtenderPreemptionResult, asked: Mapping[str, Candidate], state: ClusterState
) -> dict[str, Candidate]:
    """The candidates that an answer names. ExtenderFailed if it names what is not there."""
    found = {}
    for name, victims in answer.victims.items():
        pods = _pods(extender, name, victims, asked.get(name), state)
        if pods:
            found[name] = Candidate(pods, victims.pdb_violations)
        elif not extender.ignorable:
            raise ExtenderFailed(f'expected at least one victim pod on node "{name}"')
    return found


def _pods(
    extender: Extender, name: str, victims: Victims, asked: Candidate | None, state: ClusterState
) -> tuple[Pod, ...]:
    """The victims on one node; those that it was asked about may have gone meanwhile, and the node as well."""
    node = state.info(name)
    if node is None and asked is None:
        raise ExtenderFailed(f'nodeinfo not found for node name "{name}"')
    known = {} if node is None else dict(node.pods)
    known.update({pod.uid: pod for pod in (asked.victims if asked is not None else ())})
    for uid in victims.uids:
        if uid not in known:
            raise ExtenderFailed(
                f"extender: {extender.url} claims to preempt pod (UID: {uid}) on node: {name}, "
                "but the pod is not found on that node"
            )
    return tuple(known[uid] for uid in victims.uids)
