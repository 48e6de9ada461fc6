"""A whole scheduler driven by random events, checked against an independent model.

The model records what the watch has shown and which resources were reserved. It detects overcommitted nodes, pods bound
twice concurrently, and bindings without exactly one Scheduled event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from hypothesis import strategies as st

from pyscheduler.api import Cycle, NodeInfo, Pod
from pyscheduler.api.resources import amount
from pyscheduler.config.gates import parse
from pyscheduler.config.load import loads
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.core.commands import Bind, Command, Evict, PatchStatus, Record
from pyscheduler.core.events import BindFailed, Bound, EvictFailed
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.invariants import validate
from pyscheduler.core.queue import Tier
from pyscheduler.core.scheduling.profile_runtime import ProfileRuntime
from pyscheduler.core.scheduling.schedule_pod import ScheduleResult, schedule_pod
from pyscheduler.intree import DeferredPodScheduling
from pyscheduler.testing import Harness, NodeBuilder, PodBuilder, node
from pyscheduler.testing.objects import with_condition
from tests.properties.machine_objects import node_of, pod_of
from tests.properties.scripted_permit import ScriptedPermit
from tests.properties.state_steps import scripts

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: "tests.properties.scripted_permit:ScriptedPermit"}]}}
"""
Step = tuple[str, int, int]
"""Kind of event, number of the pod or node, and variant."""

_PODS = (*("pod",) * 6, "again", "delete", "mark", "end", "gate", "relabel", "nominate", "theirs", "defer")
_NODES = ("node", "node", "node", "drop")
_BINDINGS = ("finish", "finish", "finish", "refuse", "lose", "show", "show", "pretend", "hide")
_EVICTIONS = ("evict", "evict", "linger", "spare")
_REST = ("mood", "settle", "time", "time")
WHAT = (*_PODS, *_NODES, *_BINDINGS, *_EVICTIONS, *_REST)
STEPS = scripts(st.tuples(st.sampled_from(WHAT), st.integers(0, 9), st.integers(0, 11)), longest=40)
MOODS = ("yes", "yes", "wait", "wait", "reserve", "permit", "prebind")
SECONDS = (0.0, 0.05, 0.5, 1.5, 6.0, 25.0, 310.0)


@cache
def config() -> LoadedConfig:
    """Load CONFIG once for all models."""
    return loads(CONFIG, gates=parse(["InPlacePodVerticalScalingSchedulerPreemption=true"]))


@dataclass
class ExpectedState:
    """Expected state of pods by UID, maintained independently of the scheduler."""

    alive: dict[str, PodBuilder] = field(default_factory=dict)
    """Versions that the watch showed last."""
    bound_to: dict[str, str] = field(default_factory=dict)
    """Node according to the API server; the watch may not have shown it yet."""
    binding: set[str] = field(default_factory=set)
    """Pods with a binding in flight."""
    scheduled: Counter[str] = field(default_factory=Counter)
    """Number of Scheduled events."""
    false_confirmations: Counter[str] = field(default_factory=Counter)
    """Number of binding responses that confirmed a binding that was never made."""
    found: dict[str, int] = field(default_factory=dict)
    """Pods that a lookup has shown on a node, with the number of commands up to then."""
    expected_events: set[str] = field(default_factory=set)
    """Pods with a binding that must have a Scheduled event."""

    def place_of(self, uid: str) -> str:
        """Return the node that the watch has shown the pod on, "" if none."""
        return str(self.alive[uid].manifest["spec"].get("nodeName", "")) if uid in self.alive else ""


class MachineModel:
    """Run steps one by one; attempts and all checks follow each step."""

    def __init__(self, seed: int = 0) -> None:
        self.harness = Harness(config(), seed=seed)
        self.harness.complete_bindings = self.harness.complete_evictions = False
        self.harness.binding_error = self._binding_error
        self.harness.find_pod = self._found
        _, plugin = self.harness.machine.context.profiles["default-scheduler"].permit
        assert isinstance(plugin, ScriptedPermit)
        self.permit_plugin = plugin
        self.permit_plugin.on_reserve = self._check_capacity
        self.expected = ExpectedState()
        self._nodes: dict[str, NodeBuilder] = {}
        self._orphans: list[Bind] = []
        """Bindings of deleted pods, with the response outstanding."""
        self._pending_evictions: list[Evict] = []
        """Evictions that have not reached the API server."""
        self._violations: list[str] = []
        self._born = 0
        self._read = 0
        for name, kind in (("n0", 0), ("n1", 9)):
            self._node(name, kind)

    def do(self, step: Step) -> None:
        what, number, kind = step
        getattr(self, f"_{what}")(self._target(what, number), kind)
        self.harness.run()
        self._check_all()

    def _target(self, what: str, number: int) -> str:
        if what in _NODES:
            return f"n{number % 4}"
        if what in _BINDINGS and self.harness.pending_bindings:
            held = list(self.harness.pending_bindings.values())
            return held[number % len(held)].pod.name
        return f"p{number}"

    def heal(self) -> None:
        """Add resources for all pods, remove gates, complete deletions and let much time pass."""
        for i in range(10):
            self.harness.add(self._record_node(f"big{i}", node(f"big{i}", cpu="64").label("disk", "ssd")))
        for uid, built in list(self.expected.alive.items()):
            if _is_deleting(built):
                self._delete(built.manifest["metadata"]["name"], 0)
            else:
                self._see(uid, _ungated(built))
        self.calm_down(400.0)

    def calm_down(self, seconds: float) -> None:
        """Stop all failures and let four times `seconds` pass."""
        self.permit_plugin.mood = "yes"
        self.permit_plugin.settle(allow=True)
        for _ in range(4):
            self.harness.advance(seconds)
            while self._pending_evictions:
                self._evict("", 0)
            for bind in list(self.harness.pending_bindings.values()):
                self._finish(bind.pod.name, 0)
            for uid, built in list(self.expected.alive.items()):
                self._see(uid, built)
            self._check_all()

    def missed_wakeups(self) -> list[str]:
        """Return the unschedulable pods that would fit if they were retried, and resizes that would not any more."""
        context = self.harness.machine.context
        profile = context.profiles["default-scheduler"]
        runtime = ProfileRuntime.of(profile, context.state, context.queue.nominator, Instrument())
        tiers = context.queue.known()
        missed = []
        for queued in [each for tier, each in tiers if tier is Tier.UNSCHEDULABLE and not each.pod.deleting]:
            pod, cycle = queued.pod, Cycle(0.0, profile.name, queued.pod.uid)
            cycle.is_resize = bool(pod.node_name)
            fits = isinstance(schedule_pod(runtime, cycle, pod), ScheduleResult)
            if fits != (DeferredPodScheduling.name in queued.rejectors):
                missed.append(f"{pod} would {'fit' if fits else 'not fit'}, it was rejected by {queued.rejectors}")
        return missed

    def unbound(self) -> list[str]:
        """Return the pods that should have been bound and are not."""
        expected = self.expected
        return [uid for uid, built in expected.alive.items() if not expected.place_of(uid) and not _is_deleting(built)]

    # -- pods ------------------------------------------------------------------------------------------------------

    def _pod(self, name: str, kind: int) -> None:
        """Create a pod unless the name is in use."""
        if self._uid(name) is None:
            self._create(name, pod_of(name, kind))

    def _again(self, name: str, kind: int) -> None:
        """Delete a pod and recreate it; the watch shows only the new one."""
        old = self._uid(name)
        if old is not None:
            self._remove_from_model(old, name)
            self._create(name, pod_of(name, kind))

    def _delete(self, name: str, _: int) -> None:
        uid = self._uid(name)
        if uid is not None:
            self._remove_from_model(uid, name)
            self.harness.delete_pod(name)

    def _end(self, name: str, kind: int) -> None:
        """Let a running pod terminate."""
        uid = self._uid(name)
        if uid is not None and self.expected.place_of(uid):
            ended = self.expected.alive[uid].phase(("Succeeded", "Failed")[kind % 2])
            self._remove_from_model(uid, name)
            self.harness.add(ended)
            self.harness.delete_pod(name)

    def _mark(self, name: str, _: int) -> None:
        """Set the deletion timestamp."""
        self._change(name, lambda built: built.deleting())

    def _gate(self, name: str, kind: int) -> None:
        """Create a gated pod, or remove the gates of an existing one."""
        if self._uid(name) is None:
            self._create(name, pod_of(name, kind).gate("wait"))
        else:
            self._change(name, _ungated)

    def _relabel(self, name: str, kind: int) -> None:
        self._change(name, lambda built: built.label("kind", str(kind)))

    def _tolerate(self, name: str, _: int) -> None:
        self._change(name, lambda built: built.tolerates("odd", operator="Exists"))

    def _resize(self, name: str, kind: int) -> None:
        """Change the pod's requests, before or after it is bound."""
        self._change(name, lambda built: built.requests(cpu=("100m", "1", "2")[kind % 3]))

    def _defer(self, name: str, kind: int) -> None:
        """Let the kubelet defer a resize of a running pod, or not any more; what counts for the pod stays the same."""
        uid = self._uid(name)
        if uid is not None and self.expected.place_of(uid):
            reason = "Deferred" if kind % 3 else ""
            pending = {"type": "PodResizePending", "status": "True", "reason": reason}
            self._change(name, lambda built: PodBuilder(with_condition(built.manifest, pending)))

    def _nominate(self, name: str, kind: int) -> None:
        self._change(name, lambda built: built.nominated(f"n{kind % 5}" if kind % 3 else ""))

    def _theirs(self, name: str, kind: int) -> None:
        """Bind one of our pods from outside, whatever the scheduler is doing with it."""
        uid = self._uid(name)
        if uid is not None and self._may_bind(uid):
            self.expected.bound_to[uid] = f"n{kind % 4}"
            self._see(uid, self.expected.alive[uid])

    def _uid(self, name: str) -> str | None:
        return next((uid for uid in self.expected.alive if uid.startswith(f"{name}-")), None)

    def _create(self, name: str, built: PodBuilder) -> None:
        self._born += 1
        uid = f"{name}-{self._born}"
        self._see(uid, built.uid(uid))

    def _change(self, name: str, change: Callable[[PodBuilder], PodBuilder]) -> None:
        uid = self._uid(name)
        if uid is not None:
            self._see(uid, change(self.expected.alive[uid]))

    def _see(self, uid: str, built: PodBuilder) -> None:
        """Show a version of a pod on the watch, bound if the API server has it so."""
        bound_to = self.expected.bound_to.get(uid)
        self.expected.alive[uid] = built.on(bound_to) if bound_to else built
        self.harness.add(self.expected.alive[uid])

    def _remove_from_model(self, uid: str, name: str) -> None:
        """Remove a pod from the model before its deletion."""
        del self.expected.alive[uid]
        bind = self.harness.pending_bindings.pop(f"default/{name}", None)
        if bind is not None:
            self._orphans.append(bind)

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _node(self, name: str, kind: int) -> None:
        self.harness.add(self._record_node(name, node_of(name, kind)))

    def _record_node(self, name: str, built: NodeBuilder) -> NodeBuilder:
        self._nodes[name] = built
        return built

    def _drop(self, name: str, _: int) -> None:
        if self._nodes.pop(name, None) is not None:
            self.harness.delete_node(name)

    # -- bindings --------------------------------------------------------------------------------------------------

    def _binding_error(self, pod: Pod, node_name: str) -> str:
        """Return the API server's error for a binding: a pod is bound once, and never while terminating."""
        bound_to = self.expected.bound_to.get(pod.uid)
        if bound_to is not None:
            return "" if bound_to == node_name else f"already assigned to {bound_to}"
        return "" if self._may_bind(pod.uid) else "is being deleted, cannot be assigned to a host"

    def _may_bind(self, uid: str) -> bool:
        return (
            uid not in self.expected.bound_to
            and uid in self.expected.alive
            and not _is_deleting(self.expected.alive[uid])
        )

    def _finish(self, name: str, _: int) -> None:
        """Complete a binding cycle."""
        bind = self.harness.pending_bindings.get(f"default/{name}")
        if bind is None:
            self._end_orphan()
            return
        uid = bind.pod.uid
        accepted = self.permit_plugin.mood != "prebind" and not self._binding_error(bind.pod, bind.node_name)
        if accepted or self.expected.place_of(uid) == bind.node_name:
            self.expected.expected_events.add(uid)
        if accepted:
            self.expected.bound_to[uid] = bind.node_name
            self.expected.alive[uid] = self.expected.alive[uid].on(bind.node_name)
        self.expected.binding.discard(uid)
        self.harness.finish_binding(name)

    def _refuse(self, name: str, _: int) -> None:
        """Fail a binding that the API server rejected or never received."""
        self._fail(name, takes_effect=False)

    def _lose(self, name: str, _: int) -> None:
        """Bind the pod but lose the response; the watch shows the node later."""
        self._fail(name, takes_effect=True)

    def _fail(self, name: str, takes_effect: bool) -> None:
        bind = self.harness.pending_bindings.pop(f"default/{name}", None)
        if bind is None:
            return
        uid = bind.pod.uid
        if self.expected.place_of(uid) == bind.node_name:
            self.expected.expected_events.add(uid)
        elif takes_effect and self._may_bind(uid):
            self.expected.bound_to[uid] = bind.node_name
        self.expected.binding.discard(uid)
        self.harness.handle_event(BindFailed(self.harness.now, uid, "connection reset"))

    def _pretend(self, name: str, _: int) -> None:
        """Confirm a binding that never reached the API server."""
        self._accept(name, is_made=False)

    def _hide(self, name: str, _: int) -> None:
        """Bind the pod without showing it on the watch yet."""
        self._accept(name, is_made=True)

    def _accept(self, name: str, is_made: bool) -> None:
        bind = self.harness.pending_bindings.pop(f"default/{name}", None)
        if bind is None:
            return
        uid = bind.pod.uid
        if self.expected.place_of(uid) == bind.node_name:
            self.expected.expected_events.add(uid)
        elif is_made and self._may_bind(uid):
            self.expected.bound_to[uid] = bind.node_name
        else:
            self.expected.false_confirmations[uid] += 1
        self.expected.binding.discard(uid)
        self.harness.handle_event(Bound(self.harness.now, uid))

    def _found(self, pod: Pod) -> PodBuilder | None:
        """Return the pod as stored by the API server."""
        uid = self._uid(pod.name)
        if uid is None:
            return None
        bound_to = self.expected.bound_to.get(uid)
        if bound_to is not None:
            self.expected.found.setdefault(uid, len(self.harness.commands))
        return self.expected.alive[uid].on(bound_to) if bound_to else self.expected.alive[uid]

    def _show(self, name: str, _: int) -> None:
        """Show a pod on the watch before the response to its binding, or after the response was lost."""
        uid, bind = self._uid(name), self.harness.pending_bindings.get(f"default/{name}")
        if uid is not None and bind is not None and self._may_bind(uid):
            self.expected.bound_to[uid] = bind.node_name
        self._change(name, lambda built: built)

    def _end_orphan(self) -> None:
        if self._orphans:
            bind = self._orphans.pop(0)
            self.expected.binding.discard(bind.pod.uid)
            self.harness.handle_event(BindFailed(self.harness.now, bind.pod.uid, "not found"))

    # -- evictions -------------------------------------------------------------------------------------------------

    def _evict(self, _: str, which: int) -> None:
        """Delete a victim at once."""
        name = self._victim(which)
        if name:
            self._delete(name, 0)

    def _linger(self, _: str, which: int) -> None:
        """Let a victim terminate gracefully."""
        self._mark(self._victim(which), 0)

    def _spare(self, _: str, which: int) -> None:
        """Reject the eviction of a victim."""
        if self._pending_evictions:
            eviction = self._pending_evictions.pop(which % len(self._pending_evictions))
            self.harness.handle_event(
                EvictFailed(self.harness.now, eviction.preemptor.uid, "try later", eviction.victim.uid)
            )

    def _victim(self, which: int) -> str:
        """Return the name of a pod to be evicted, "" if there is none."""
        victim = (
            self._pending_evictions.pop(which % len(self._pending_evictions)).victim
            if self._pending_evictions
            else None
        )
        return victim.name if victim is not None and victim.uid in self.expected.alive else ""

    # -- time and Permit -------------------------------------------------------------------------------------------

    def _mood(self, _: str, kind: int) -> None:
        self.permit_plugin.mood = MOODS[kind % len(MOODS)]

    def _settle(self, _: str, kind: int) -> None:
        self.permit_plugin.settle(allow=kind % 3 > 0)
        self.harness.advance(0.0)

    def _time(self, _: str, kind: int) -> None:
        self.harness.advance(SECONDS[kind % len(SECONDS)])

    # -- checks ----------------------------------------------------------------------------------------------------

    def _check_capacity(self, pod: Pod, chosen: NodeInfo) -> None:
        """Check the node's capacity in the Reserve plugin, when every pod that counts is on the node.

        Findings are stored: an exception here would be taken for a failure of the plugin.
        """
        placed = [uid for uid in self.expected.alive if self._counts_on(uid) == chosen.name]
        allocatable = self._nodes[chosen.name].manifest["status"]["allocatable"]
        requested = sum(_cpu(self.expected.alive[uid]) for uid in placed)
        if pod.uid not in placed:
            self._violations.append(f"{pod} is reserved, but not on its node")
        if requested > amount("cpu", allocatable["cpu"]):
            self._violations.append(f"{chosen.name} has {allocatable['cpu']} cpu, requested are {requested}m: {placed}")
        if len(placed) > int(allocatable["pods"]):
            self._violations.append(f"{chosen.name} allows {allocatable['pods']} pods, has {placed}")

    def _counts_on(self, uid: str) -> str:
        return self.expected.place_of(uid) or self.permit_plugin.reserved.get(uid, "")

    def _check_all(self) -> None:
        validate(self.harness.machine.context)
        assert not self._violations, self._violations[0]
        for at, command in enumerate(self.harness.commands[self._read :], self._read):
            self._note(command, at)
        self._read = len(self.harness.commands)
        expected, queue = self.expected, self.harness.machine.context.queue
        for uid, n in expected.scheduled.items():
            assert n <= 1 + expected.false_confirmations[uid], f"{uid} has {n} Scheduled events"
        for uid in expected.expected_events:
            assert expected.scheduled[uid], f"the binding of {uid} has no Scheduled event"
        for uid in self.permit_plugin.reserved:
            waits = uid in queue and not expected.place_of(uid)  # pods on their nodes are queued for resizes
            assert not waits, f"{uid} waits in the queue and holds a reservation"

    def _note(self, command: Command, at: int) -> None:
        if isinstance(command, Bind):
            uid = command.pod.uid
            assert uid not in self.expected.binding, f"{uid} is bound twice at once"
            shown = self.expected.found.get(uid, at)
            assert at <= shown, f"{uid} is bound again after a lookup has shown its node"
            self.expected.binding.add(uid)
        elif isinstance(command, Record) and command.reason == "Scheduled":
            self.expected.scheduled[command.regarding.uid] += 1
        elif isinstance(command, Evict):
            self._pending_evictions.append(command)
        elif isinstance(command, PatchStatus) and command.nominated_node_name is not None:
            self._nominated(command.pod.uid, command.nominated_node_name)

    def _nominated(self, uid: str, node_name: str) -> None:
        """Record the nomination; the harness has shown the pod already."""
        if uid in self.expected.alive:
            self.expected.alive[uid] = self.expected.alive[uid].nominated(node_name)


def check_all_bound(script: list[Step]) -> None:
    """Check that every pod is bound in the end, whatever happens."""
    machine = MachineModel()
    for step in script:
        machine.do(step)
    machine.heal()
    assert not machine.unbound(), f"never bound: {machine.unbound()}"


def check_no_missed_wakeup(script: list[Step]) -> None:
    """Check that no pod stays parked that would fit, whatever happens."""
    machine = MachineModel()
    for step in script:
        machine.do(step)
    # Longer than any backoff, too short for the flush of pods that have waited for five minutes.
    machine.calm_down(13.0)
    assert not machine.missed_wakeups(), machine.missed_wakeups()


def _cpu(built: PodBuilder) -> int:
    """Return the pod's CPU request in millicores."""
    return amount("cpu", built.manifest["spec"]["containers"][0]["resources"]["requests"]["cpu"])


def _ungated(built: PodBuilder) -> PodBuilder:
    spec = {name: value for name, value in built.manifest["spec"].items() if name != "schedulingGates"}
    return PodBuilder({**built.manifest, "spec": spec})


def _is_deleting(built: PodBuilder) -> bool:
    return "deletionTimestamp" in built.manifest["metadata"]
