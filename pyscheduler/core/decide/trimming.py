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
from pyscheduler.core.decide.postfilter import PostFiltered, Searching, run_post_filter
from pyscheduler.core.decide.talk import Steps, Talk
from pyscheduler.core.extending import CallFailed, Extender, ExtenderFailed, PreemptCall, Trimmed, Victims
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.state.cluster import ClusterState

NONE_LEFT = "preemption: no candidate node for preemption"


def consulted_post_filter(
    talk: Talk, profile: Profile, diagnosis: Diagnosis, state: ClusterState, instrument: Instrument
) -> Steps[PostFiltered]:
    """Ask the PostFilter plugins, then the extenders of what preemption has found. PluginFailed if a plugin raises."""
    extenders = [extender for extender in talk.extenders if extender.preempts]
    if not extenders:
        return run_post_filter(profile.post_filter, talk.cycle, talk.pod, diagnosis, instrument)
    plugins = tuple(Searching(p) if isinstance(p, PreemptionPlugin) else p for p in profile.post_filter)
    said = run_post_filter(plugins, talk.cycle, talk.pod, diagnosis, instrument)
    searching = next((p for p in plugins if isinstance(p, Searching) and p.found is not None), None)
    if searching is None:
        return said
    instrument.preemption_attempted()
    if searching.found is None or said.plugin != searching.name or not searching.found.candidates:
        return said
    try:
        candidates = yield from _trimmed(talk, extenders, searching.found.candidates, state)
    except ExtenderFailed as failed:
        return PostFiltered(f"preemption: {failed}", code=Code.ERROR)
    there = {name: candidate for name, candidate in candidates.items() if state.info(name) is not None}
    if not there:
        return PostFiltered(", ".join([*said.before, NONE_LEFT]))
    name = searching.plugin.choose(there)
    # As they are by now: who has gone while extenders were thinking has made room already.
    hosts = ((victim.uid, state.node_of(victim.uid)) for victim in there[name].victims)
    victims = tuple(host.pods[uid] for uid, host in hosts if host is not None)
    return PostFiltered("", name, victims, searching.name, Code.SUCCESS)


def _trimmed(
    talk: Talk, extenders: Sequence[Extender], candidates: Mapping[str, Candidate], state: ClusterState
) -> Steps[Mapping[str, Candidate]]:
    """What the extenders leave of the candidates, each of what the one before has left."""
    for extender in extenders:
        (answer,) = yield from talk.ask(PreemptCall(extender, candidates))
        try:
            if not isinstance(answer, Trimmed):
                raise ExtenderFailed(answer.message if isinstance(answer, CallFailed) else "no answer")
            candidates = _read(extender, answer, candidates, state)
        except ExtenderFailed:
            if not extender.ignorable:
                raise
        if not candidates:
            break
    return candidates


def _read(
    extender: Extender, answer: Trimmed, asked: Mapping[str, Candidate], state: ClusterState
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
