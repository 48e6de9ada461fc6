"""The real core on virtual time, with a world that answers: what scenarios and plugin tests run on.

    harness = Harness()
    harness.add(node("n1"), pod("a").requests(cpu="1"))
    harness.run()
    assert harness.assignments == {"a": "n1"}

Bindings succeed at once unless `binding_error` says otherwise, and the watch confirms them, as an API server would.
Without `complete_bindings` they take as long as the test likes. PreBind and Bind plugins may do real I/O: it takes real
time, while `api.sleep` takes virtual time. Victims of preemption are gone at once, or as
`eviction_error` and `graceful` say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from pyscheduler.api.events import ResourceKind
from pyscheduler.api.objects import PodObject
from pyscheduler.api.pod import Pod
from pyscheduler.config.build import build_profiles
from pyscheduler.config.extenders import build_extenders
from pyscheduler.config.load import default, loads
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.config.rebuild import rebuild_profiles
from pyscheduler.core.commands import Bind, CallExtenders, CancelBinding, Command, Evict, GetPod, PatchStatus, Record
from pyscheduler.core.context import Settings
from pyscheduler.core.events import (
    BindFailed,
    Bound,
    Event,
    EvictFailed,
    ExtendersResponded,
    NodeChanged,
    NodeGone,
    ObjectChanged,
    ObjectGone,
    PodChanged,
    PodFound,
    PodGone,
    Reconfigured,
    SucceededPodGone,
    Tick,
)
from pyscheduler.core.extender import ExtenderCall, ExtenderCallFailed, ExtenderResult
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.invariants import validate
from pyscheduler.core.machine import Machine
from pyscheduler.shell.binding.cycle import run_binding
from pyscheduler.testing.api import HarnessApiWriter, HarnessClock
from pyscheduler.testing.binding_cycles import BindingCycles
from pyscheduler.testing.builders import NodeBuilder, PodBuilder


class Harness:
    """A machine, a clock that only `advance` moves, and the pods and nodes as an API server would hold them."""

    def __init__(
        self, config: str | LoadedConfig | None = None, *, instrument: Instrument | None = None, seed: int = 0
    ) -> None:
        """`config` is a loaded configuration or its YAML text; the default profile without one."""
        loaded = loads(config) if isinstance(config, str) else config or default()
        self.now = 1000.0
        self._started = loaded
        self.handle = CoreHandle()
        settings = Settings(
            seed,
            loaded.configuration.pod_initial_backoff_seconds,
            loaded.configuration.pod_max_backoff_seconds,
            extenders=build_extenders(loaded.configuration),
        )
        profiles = build_profiles(loaded, self.handle)
        self.machine = Machine(profiles, self.handle, instrument, settings)
        self.commands: list[Command] = []
        """Everything that the machine has asked for, oldest first."""
        self.binding_error: Callable[[Pod, str], str] = lambda _pod, _node: ""
        """Why the API server refuses to bind a pod to a node; "" lets it."""
        self.complete_bindings = True
        """False keeps binding cycles from ending, until `finish_binding` or the test tells Bound or BindFailed."""
        self.pending_bindings: dict[str, Bind] = {}
        """The newest binding that was kept from ending, by namespace/name of the pod."""
        self.find_pod: Callable[[Pod], PodBuilder | None] = lambda pod: self._pods.get(pod.key)
        """The pod of that namespace and name as the API server has it; the watch may have shown less."""
        self.eviction_error: Callable[[Pod], str] = lambda _pod: ""
        """Why a victim cannot be evicted; "" lets it go."""
        self.complete_evictions = True
        """False keeps the API server from hearing of evictions, for as long as the test likes."""
        self.apply_patches = True
        """False keeps the API server from hearing of nominations: those that are told of meanwhile get lost."""
        self.graceful = False
        """Whether victims take their time to end: they are being deleted until the test deletes them."""
        self.call_extender: Callable[[Pod, ExtenderCall], ExtenderResult] = lambda _pod, _call: ExtenderCallFailed(
            "nobody is there"
        )
        """What an extender says when it is called."""
        self.complete_extender_calls = True
        """False keeps extenders thinking, until `answer` or the test tells ExtendersResponded."""
        self._pods: dict[str, PodBuilder] = {}
        self._cycles = BindingCycles(lambda: self.now)
        self.nodes: dict[str, dict[str, Any]] = {}
        """The nodes as manifests, by name."""
        self._kinds = {kind.plural: kind for profile in profiles for kind in profile.watches}
        self._versions = 0

    # -- the world -----------------------------------------------------------------------------------------------

    def add(self, *objects: PodBuilder | NodeBuilder) -> None:
        """Create pods and nodes, or update those of the same name."""
        for obj in objects:
            if isinstance(obj, NodeBuilder):
                self.nodes[obj.manifest["metadata"]["name"]] = obj.manifest
                self.handle_event(NodeChanged(self.now, obj.build()))
            else:
                self._show(obj)

    def add_object(self, kind: ResourceKind, obj: dict[str, Any]) -> None:
        """Create or update an object: plugins that watch the kind see it, plugins that act can read and write it."""
        self._kinds.setdefault(kind.plural, kind)
        self.handle_event(ObjectChanged(self.now, kind, obj))

    def object(self, kind: ResourceKind, name: str, namespace: str) -> dict[str, Any] | None:
        """Return an object of a watched kind as it was added last, or None."""
        return self.handle.objects(kind).get((namespace, name))

    def remove_object(self, kind: ResourceKind, name: str, namespace: str = "default") -> None:
        """Delete such an object."""
        self.handle_event(ObjectGone(self.now, kind, namespace, name))

    @property
    def kinds(self) -> Mapping[str, ResourceKind]:
        """The kinds that plugins watch and those of `add_object`, by plural."""
        return self._kinds

    def delete_pod(self, name: str, namespace: str = "default") -> None:
        """Delete a pod at once."""
        gone = self._pods.pop(f"{namespace}/{name}")
        uid = gone.manifest["metadata"]["uid"]
        self.handle_event(PodGone(self.now, namespace, name, uid))
        self.handle_event(SucceededPodGone(self.now, uid))

    def delete_node(self, name: str) -> None:
        """Delete a node; its pods stay bound to it until they are deleted."""
        self.nodes.pop(name, None)
        self.handle_event(NodeGone(self.now, name))

    def reconfigure(self, config: str | LoadedConfig) -> tuple[str, ...]:
        """Go on by another configuration, as after a reload; what of it waits for a restart."""
        loaded = loads(config) if isinstance(config, str) else config
        rebuilt = rebuild_profiles(self._started, loaded, self.machine.context.active_profiles, self.handle)
        self._kinds |= {kind.plural: kind for profile in rebuilt.profiles for kind in profile.watches}
        settings = loaded.configuration
        backoffs = settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds
        self.handle_event(Reconfigured(self.now, rebuilt.profiles, *backoffs, build_extenders(settings)))
        return rebuilt.restart

    # -- bindings ------------------------------------------------------------------------------------------------

    def finish_binding(self, name: str, namespace: str = "default") -> None:
        """Run a binding cycle that was kept from ending; it succeeds or fails as it would have at once."""
        self._bind(self.pending_bindings.pop(f"{namespace}/{name}"))

    def confirm_binding(self, name: str, namespace: str = "default") -> None:
        """The watch shows the pod on the node that it was last to be bound to, whatever came of that here."""
        key = f"{namespace}/{name}"
        node_name = next(c.node_name for c in reversed(self.commands) if isinstance(c, Bind) and c.pod.key == key)
        self._show(self._pods[key].on(node_name))

    # -- extenders -----------------------------------------------------------------------------------------------

    @property
    def extender_calls(self) -> list[ExtenderCall]:
        """The calls to extenders that the machine has asked for, oldest first."""
        return [call for c in self.commands if isinstance(c, CallExtenders) for call in c.calls]

    def answer(self) -> None:
        """Extenders answer what they were asked last, as `call_extender` says."""
        self._consult(next(c for c in reversed(self.commands) if isinstance(c, CallExtenders)))

    # -- time ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Make attempts until no pod is ready for one; then check that the machine's memory is sound."""
        while (commands := self.machine.cycle(self.now)) is not None:
            self._carry_out(commands)
        validate(self.machine.context)

    def advance(self, seconds: float) -> None:
        """Let time pass, in steps at which the machine wants to be woken, making attempts as pods become ready.

        Pods that are ready already are tried before any time passes, as by `run`.
        """
        end = self.now + seconds
        self.run()
        while (wake := self._next_wake()) is not None and wake <= end:
            # A wake that is due already must not stop time.
            self.now = max(wake, self.now)
            self._wake()
            following = self._next_wake()
            if following is not None and following <= self.now:
                self.now = min(end, self.now + 1.0)
                if self.now == end:
                    break
        self.now = end
        self._wake()

    # -- what came of it -----------------------------------------------------------------------------------------

    @property
    def assignments(self) -> dict[str, str]:
        """The node of every bound pod, by pod name."""
        bound = {p.manifest["metadata"]["name"]: p.manifest["spec"].get("nodeName", "") for p in self._pods.values()}
        return {name: node for name, node in bound.items() if node}

    @property
    def pods(self) -> Mapping[str, PodBuilder]:
        """Every pod as the API server holds it, by namespace/name."""
        return MappingProxyType(self._pods)

    @property
    def bound_order(self) -> list[str]:
        """The names of the pods in the order in which binding began."""
        return [c.pod.name for c in self.commands if isinstance(c, Bind)]

    def events(self, name: str) -> list[tuple[str, str]]:
        """The events of a pod as (reason, note), oldest first."""
        return [(c.reason, c.note) for c in self.commands if isinstance(c, Record) and c.regarding.name == name]

    def pending_message(self, name: str) -> str:
        """The message of the pod's newest PodScheduled condition, "" if it has none."""
        patches = [c for c in self.commands if isinstance(c, PatchStatus) and c.pod.name == name and c.condition]
        return patches[-1].condition.message if patches and patches[-1].condition else ""

    def nominated(self, name: str, namespace: str = "default") -> str:
        """The node that the pod's status promises it, "" if there is none."""
        status = self._pods[f"{namespace}/{name}"].manifest.get("status", {})
        return str(status.get("nominatedNodeName", ""))

    def evicted(self) -> list[str]:
        """The names of the pods to be evicted, in order."""
        return [c.victim.name for c in self.commands if isinstance(c, Evict)]

    # -- inside --------------------------------------------------------------------------------------------------

    def _show(self, pod: PodBuilder) -> None:
        self._versions += 1
        current = pod.version(self._versions)
        meta = current.manifest["metadata"]
        self._pods[f"{meta['namespace']}/{meta['name']}"] = current
        self.handle_event(PodChanged(self.now, msgspec.convert(current.manifest, PodObject)))

    def pod(self, name: str, namespace: str = "default") -> dict[str, Any] | None:
        """A pod's manifest as the API server has it now, None if there is none of that name."""
        known = self._pods.get(f"{namespace}/{name}")
        return None if known is None else known.manifest

    def close(self) -> None:
        """Cancel the binding cycles that have not ended. Not needed but to see what a plugin does then."""
        self._cycles.close()

    async def sleep(self, seconds: float) -> None:
        """Let virtual time pass, in a binding cycle."""
        await self._cycles.sleep(seconds)

    def handle_event(self, event: Event) -> None:
        """Give the machine an event of the test's own making."""
        self._carry_out(self.machine.handle(event))

    def _carry_out(self, commands: Sequence[Command]) -> None:
        for command in commands:
            self.commands.append(command)
            if isinstance(command, Bind):
                if self.complete_bindings:
                    self._bind(command)
                else:
                    self.pending_bindings[command.pod.key] = command
            elif isinstance(command, Evict):
                if self.complete_evictions:
                    self._evict(command)
            elif isinstance(command, CancelBinding):
                self._call_off(command.uid)
            elif isinstance(command, GetPod):
                self._find(command.pod)
            elif isinstance(command, PatchStatus):
                if self.apply_patches:
                    self._nominate(command)
            elif isinstance(command, CallExtenders) and self.complete_extender_calls:
                self._consult(command)

    def _consult(self, command: CallExtenders) -> None:
        answers = tuple(self.call_extender(command.pod, call) for call in command.calls)
        self.handle_event(ExtendersResponded(self.now, command.id, answers))

    def _evict(self, command: Evict) -> None:
        victim = command.victim
        if self._call_off(victim.uid):
            self.commands += [record] if (record := command.cancelled_record()) else []
            self.handle_event(BindFailed(self.now, victim.uid, f"preempted by {command.plugin}"))
            return
        refusal = self.eviction_error(victim)
        if refusal:
            self.handle_event(EvictFailed(self.now, command.preemptor.uid, refusal, victim.uid))
            return
        if command.then is not None:
            self.commands.append(command.then)
        if self.graceful:
            target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
            self._show(self._pods[victim.key].deleting().condition(**target))
        elif victim.key in self._pods:
            self.delete_pod(victim.name, victim.namespace)

    def _find(self, pod: Pod) -> None:
        """Answer a lookup, as the API server would."""
        current = self.find_pod(pod)
        if current is None or current.manifest["metadata"]["uid"] != pod.uid:
            self.handle_event(PodGone(self.now, pod.namespace, pod.name, pod.uid))
        else:
            self.handle_event(PodFound(self.now, msgspec.convert(current.manifest, PodObject)))

    def _call_off(self, uid: str) -> bool:
        """End a binding cycle that waits; return True if there was one."""
        return self._cycles.cancel(uid)

    def _nominate(self, command: PatchStatus) -> None:
        pod, wanted = self._pods.get(command.pod.key), command.nominated_node_name
        if pod is not None and wanted is not None and wanted != self.nominated(command.pod.name, command.pod.namespace):
            self._show(pod.nominated(wanted))

    def _bind(self, command: Bind) -> None:
        """The binding cycle, on the harness's own time."""
        clock = HarnessClock(lambda: self.now, self)
        self._cycles.start(
            command, run_binding(command, HarnessApiWriter(self), clock, self.machine.context.instrument)
        )
        self._run_bindings()

    def _run_bindings(self) -> None:
        """Run all binding cycles until they wait for virtual time; those that end are reported."""
        for command, outcome in self._cycles.run_until_blocked():
            self.handle_event(outcome)
            if isinstance(outcome, Bound):
                self._show(self._pods[command.pod.key].on(command.node_name))

    def _next_wake(self) -> float | None:
        """When the machine or a binding cycle wants to go on."""
        wakes = (self.machine.next_wake(), self._cycles.next_wake())
        return min((wake for wake in wakes if wake is not None), default=None)

    def _wake(self) -> None:
        """Time has passed: tell the machine, let waiting binding cycles go on, make attempts."""
        self.handle_event(Tick(self.now))
        self._cycles.wake()
        self._run_bindings()
        self.run()

    def versioned(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The object with a new resourceVersion."""
        self._versions += 1
        return {**body, "metadata": {**(body.get("metadata") or {}), "resourceVersion": str(self._versions)}}

    def refusal(self, pod: Pod, node_name: str) -> str:
        current = self._pods.get(pod.key)
        if current is None or current.manifest["metadata"]["uid"] != pod.uid:
            return f'pods "{pod.name}" not found'
        elsewhere = current.manifest["spec"].get("nodeName", "")
        if elsewhere not in ("", node_name):
            return f'pod {pod.name} is already assigned to node "{elsewhere}"'
        return self.binding_error(pod, node_name)
