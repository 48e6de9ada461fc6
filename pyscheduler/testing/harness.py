"""Test harness: the scheduler core in virtual time with a simulated API server.

    harness = Harness()
    harness.add(node("n1"), pod("a").requests(cpu="1"))
    harness.run()
    assert harness.assignments == {"a": "n1"}

By default bindings succeed at once and the watch confirms them; `binding_error` makes them fail and `complete_bindings`
delays them. Victims of preemption are deleted at once unless `eviction_error` or `graceful` is set. PreBind and Bind
plugins may do real I/O: it takes real time, while `api.sleep` takes virtual time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
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
from pyscheduler.core.extenders.extender import ExtenderCall, ExtenderCallFailed, ExtenderResult
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.invariants import validate
from pyscheduler.core.machine import Machine
from pyscheduler.shell.binding.cycle import run_binding
from pyscheduler.testing.api import HarnessApiWriter, HarnessClock
from pyscheduler.testing.binding_cycles import BindingCycles
from pyscheduler.testing.builders import NodeBuilder, PodBuilder


class Harness:
    """Scheduler core with a virtual clock and the pods and nodes of a simulated API server."""

    def __init__(
        self, config: str | LoadedConfig | None = None, *, instrument: Instrument | None = None, seed: int = 0
    ) -> None:
        """Start with a loaded configuration or its YAML text; by default, with the default profile."""
        loaded = loads(config) if isinstance(config, str) else config or default()
        self.now = 1000.0
        self._started = loaded
        settings = Settings(
            seed,
            loaded.configuration.pod_initial_backoff_seconds,
            loaded.configuration.pod_max_backoff_seconds,
            extenders=build_extenders(loaded.configuration),
        )
        self.machine = Machine(partial(build_profiles, loaded), instrument, settings)
        self.handle = self.machine.context.handle
        """The handle of the plugins."""
        self.commands: list[Command] = []
        """All commands that the core has issued, oldest first."""
        self.binding_error: Callable[[Pod, str], str] = lambda _pod, _node: ""
        """Callback that returns the API server's error for a binding (pod, node name); "" binds the pod."""
        self.complete_bindings = True
        """False suspends binding cycles until `finish_binding` or until the test sends Bound or BindFailed."""
        self.pending_bindings: dict[str, Bind] = {}
        """Last suspended binding by namespace/name of the pod."""
        self.find_pod: Callable[[Pod], PodBuilder | None] = lambda pod: self._pods.get(pod.key)
        """Callback that returns the API server's version of a pod, or None; the watch may lag behind."""
        self.eviction_error: Callable[[Pod], str] = lambda _pod: ""
        """Callback that returns the API server's error for an eviction; "" evicts the pod."""
        self.complete_evictions = True
        """False drops evictions before they reach the API server."""
        self.apply_patches = True
        """False drops status patches, and with them nominations."""
        self.graceful = False
        """True leaves victims terminating until the test deletes them."""
        self.call_extender: Callable[[Pod, ExtenderCall], ExtenderResult] = lambda _pod, _call: ExtenderCallFailed(
            "connection refused"
        )
        """Callback that returns the response to an extender call."""
        self.complete_extender_calls = True
        """False suspends extender calls until `answer` or until the test sends ExtendersResponded."""
        self._pods: dict[str, PodBuilder] = {}
        self._cycles = BindingCycles(lambda: self.now)
        self.nodes: dict[str, dict[str, Any]] = {}
        """Manifests of the nodes by name."""
        profiles = self.machine.context.profiles.values()
        self._kinds = {kind.plural: kind for profile in profiles for kind in profile.watches}
        self._versions = 0

    # -- API objects ---------------------------------------------------------------------------------------------

    def add(self, *objects: PodBuilder | NodeBuilder) -> None:
        """Create or update pods and nodes."""
        for obj in objects:
            if isinstance(obj, NodeBuilder):
                self.nodes[obj.manifest["metadata"]["name"]] = obj.manifest
                self.handle_event(NodeChanged(self.now, obj.build()))
            else:
                self._show(obj)

    def add_object(self, kind: ResourceKind, obj: dict[str, Any]) -> None:
        """Create or update an object of a kind that plugins watch, or that they read and write through `api`."""
        self._kinds.setdefault(kind.plural, kind)
        self.handle_event(ObjectChanged(self.now, kind, obj))

    def object(self, kind: ResourceKind, name: str, namespace: str) -> dict[str, Any] | None:
        """Return an object of a watched kind as it was added last, or None."""
        return self.handle.objects[kind].get((namespace, name))

    def remove_object(self, kind: ResourceKind, name: str, namespace: str = "default") -> None:
        """Delete an object that was added by `add_object`."""
        self.handle_event(ObjectGone(self.now, kind, namespace, name))

    @property
    def kinds(self) -> Mapping[str, ResourceKind]:
        """Resource kinds of the plugins and of `add_object`, by plural."""
        return self._kinds

    def delete_pod(self, name: str, namespace: str = "default") -> None:
        """Delete a pod at once."""
        gone = self._pods.pop(f"{namespace}/{name}")
        uid = gone.manifest["metadata"]["uid"]
        self.handle_event(PodGone(self.now, namespace, name, uid))
        self.handle_event(SucceededPodGone(self.now, uid))

    def delete_node(self, name: str) -> None:
        """Delete a node. Its pods stay assigned to it."""
        self.nodes.pop(name, None)
        self.handle_event(NodeGone(self.now, name))

    def reconfigure(self, config: str | LoadedConfig) -> tuple[str, ...]:
        """Reload the configuration. Return the settings that need a restart."""
        loaded = loads(config) if isinstance(config, str) else config
        rebuilt = rebuild_profiles(self._started, loaded, self.machine.context.active_profiles, self.handle)
        self._kinds |= {kind.plural: kind for profile in rebuilt.profiles for kind in profile.watches}
        settings = loaded.configuration
        backoffs = settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds
        self.handle_event(Reconfigured(self.now, rebuilt.profiles, *backoffs, build_extenders(settings)))
        return rebuilt.restart

    # -- bindings ------------------------------------------------------------------------------------------------

    def finish_binding(self, name: str, namespace: str = "default") -> None:
        """Run a suspended binding cycle to its success or failure."""
        self._bind(self.pending_bindings.pop(f"{namespace}/{name}"))

    def confirm_binding(self, name: str, namespace: str = "default") -> None:
        """Send the watch event of a bound pod, for the node of its last binding command."""
        key = f"{namespace}/{name}"
        node_name = next(c.node_name for c in reversed(self.commands) if isinstance(c, Bind) and c.pod.key == key)
        self._show(self._pods[key].on(node_name))

    # -- extenders -----------------------------------------------------------------------------------------------

    @property
    def extender_calls(self) -> list[ExtenderCall]:
        """Extender calls that the core has issued, oldest first."""
        return [call for c in self.commands if isinstance(c, CallExtenders) for call in c.calls]

    def answer(self) -> None:
        """Complete the last extender call with the result of `call_extender`."""
        self._call_extenders(next(c for c in reversed(self.commands) if isinstance(c, CallExtenders)))

    # -- time ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run scheduling cycles until no pod is ready; then validate the invariants of the core's state."""
        while (commands := self.machine.cycle(self.now)) is not None:
            self._execute(commands)
        validate(self.machine.context)

    def advance(self, seconds: float) -> None:
        """Advance virtual time by `seconds`, waking the core when it is due and scheduling pods that become ready.

        Pods that are ready now are scheduled first, as by `run`.
        """
        end = self.now + seconds
        self.run()
        while (wake := self._next_wake()) is not None and wake <= end:
            # A wake-up that is due already must not stop the clock.
            self.now = max(wake, self.now)
            self._wake()
            following = self._next_wake()
            if following is not None and following <= self.now:
                self.now = min(end, self.now + 1.0)
                if self.now == end:
                    break
        self.now = end
        self._wake()

    # -- results -------------------------------------------------------------------------------------------------

    @property
    def assignments(self) -> dict[str, str]:
        """Node names of the bound pods by pod name."""
        bound = {p.manifest["metadata"]["name"]: p.manifest["spec"].get("nodeName", "") for p in self._pods.values()}
        return {name: node for name, node in bound.items() if node}

    @property
    def pods(self) -> Mapping[str, PodBuilder]:
        """Pods in the API server by namespace/name."""
        return MappingProxyType(self._pods)

    @property
    def bound_order(self) -> list[str]:
        """Names of pods in the order of their binding commands."""
        return [c.pod.name for c in self.commands if isinstance(c, Bind)]

    def events(self, name: str) -> list[tuple[str, str]]:
        """Return the events of a pod as (reason, note), oldest first."""
        return [(c.reason, c.note) for c in self.commands if isinstance(c, Record) and c.regarding.name == name]

    def pending_message(self, name: str) -> str:
        """Return the message of the pod's last PodScheduled condition, "" if it has none."""
        patches = [c for c in self.commands if isinstance(c, PatchStatus) and c.pod.name == name and c.condition]
        return patches[-1].condition.message if patches and patches[-1].condition else ""

    def nominated(self, name: str, namespace: str = "default") -> str:
        """Return status.nominatedNodeName, "" if it is not set."""
        status = self._pods[f"{namespace}/{name}"].manifest.get("status", {})
        return str(status.get("nominatedNodeName", ""))

    def evicted(self) -> list[str]:
        """Return the names of the evicted pods, in order."""
        return [c.victim.name for c in self.commands if isinstance(c, Evict)]

    # -- internals -----------------------------------------------------------------------------------------------

    def _show(self, pod: PodBuilder) -> None:
        self._versions += 1
        current = pod.version(self._versions)
        meta = current.manifest["metadata"]
        self._pods[f"{meta['namespace']}/{meta['name']}"] = current
        self.handle_event(PodChanged(self.now, msgspec.convert(current.manifest, PodObject)))

    def pod(self, name: str, namespace: str = "default") -> dict[str, Any] | None:
        """Return the manifest of a pod in the API server, or None."""
        builder = self._pods.get(f"{namespace}/{name}")
        return None if builder is None else builder.manifest

    def close(self) -> None:
        """Cancel pending binding cycles. Only needed to test how a plugin handles the cancellation."""
        self._cycles.close()

    async def sleep(self, seconds: float) -> None:
        """Wait for this many seconds of virtual time in a binding cycle."""
        await self._cycles.sleep(seconds)

    def handle_event(self, event: Event) -> None:
        """Send an event to the core and execute the resulting commands."""
        self._execute(self.machine.handle(event))

    def _execute(self, commands: Sequence[Command]) -> None:
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
                self._cancel_binding(command.uid)
            elif isinstance(command, GetPod):
                self._find(command.pod)
            elif isinstance(command, PatchStatus):
                if self.apply_patches:
                    self._nominate(command)
            elif isinstance(command, CallExtenders) and self.complete_extender_calls:
                self._call_extenders(command)

    def _call_extenders(self, command: CallExtenders) -> None:
        responses = tuple(self.call_extender(command.pod, call) for call in command.calls)
        self.handle_event(ExtendersResponded(self.now, command.id, responses))

    def _evict(self, command: Evict) -> None:
        victim = command.victim
        if self._cancel_binding(victim.uid):
            self.commands += [record] if (record := command.cancelled_record()) else []
            self.handle_event(BindFailed(self.now, victim.uid, f"preempted by {command.plugin}"))
            return
        error = self.eviction_error(victim)
        if error:
            self.handle_event(EvictFailed(self.now, command.preemptor.uid, error, victim.uid))
            return
        if command.then is not None:
            self.commands.append(command.then)
        if self.graceful:
            target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
            self._show(self._pods[victim.key].deleting().condition(**target))
        elif victim.key in self._pods:
            self.delete_pod(victim.name, victim.namespace)

    def _find(self, pod: Pod) -> None:
        """Answer a GetPod command from `find_pod`."""
        current = self.find_pod(pod)
        if current is None or current.manifest["metadata"]["uid"] != pod.uid:
            self.handle_event(PodGone(self.now, pod.namespace, pod.name, pod.uid))
        else:
            self.handle_event(PodFound(self.now, msgspec.convert(current.manifest, PodObject)))

    def _cancel_binding(self, uid: str) -> bool:
        """Cancel a waiting binding cycle. Return True if there was one."""
        return self._cycles.cancel(uid)

    def _nominate(self, command: PatchStatus) -> None:
        pod, wanted = self._pods.get(command.pod.key), command.nominated_node_name
        if pod is not None and wanted is not None and wanted != self.nominated(command.pod.name, command.pod.namespace):
            self._show(pod.nominated(wanted))

    def _bind(self, command: Bind) -> None:
        """Start a binding cycle in virtual time."""
        clock = HarnessClock(lambda: self.now, self)
        self._cycles.start(
            command, run_binding(command, HarnessApiWriter(self), clock, self.machine.context.instrument)
        )
        self._run_bindings()

    def _run_bindings(self) -> None:
        """Run all binding cycles until they wait for virtual time, and send the results of those that ended."""
        for command, outcome in self._cycles.run_until_blocked():
            self.handle_event(outcome)
            if isinstance(outcome, Bound):
                self._show(self._pods[command.pod.key].on(command.node_name))

    def _next_wake(self) -> float | None:
        """Return the time of the next wake-up of the core or of a binding cycle, or None."""
        wakes = (self.machine.next_wake(), self._cycles.next_wake())
        return min((wake for wake in wakes if wake is not None), default=None)

    def _wake(self) -> None:
        """Send a Tick, resume waiting binding cycles and run scheduling cycles."""
        self.handle_event(Tick(self.now))
        self._cycles.wake()
        self._run_bindings()
        self.run()

    def versioned(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the object with a new resourceVersion."""
        self._versions += 1
        return {**body, "metadata": {**(body.get("metadata") or {}), "resourceVersion": str(self._versions)}}

    def bind_conflict(self, pod: Pod, node_name: str) -> str:
        """Return the API server's error for a binding, "" if it succeeds."""
        current = self._pods.get(pod.key)
        if current is None or current.manifest["metadata"]["uid"] != pod.uid:
            return f'pods "{pod.name}" not found'
        current_node = current.manifest["spec"].get("nodeName", "")
        if current_node not in ("", node_name):
            return f'pod {pod.name} is already assigned to node "{current_node}"'
        return self.binding_error(pod, node_name)
