"""Test harness: the scheduler core in virtual time with a simulated API server.

    harness = Harness()
    harness.add(node("n1"), pod("a").requests(cpu="1"))
    harness.run()
    assert harness.assignments == {"a": "n1"}

`add` takes builders, `apply` manifests of any kind. By default bindings succeed at once and the watch confirms them;
`binding_error` makes them fail and `complete_bindings` delays them. Victims of preemption are deleted at once, or after
the seconds in their annotation `pyscheduler.io/ends-after`, unless `eviction_error` or `graceful` is set. PreBind and
Bind plugins may do real I/O: it takes real time, while `api.sleep` takes virtual time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from pyscheduler.api.events import ResourceKind
from pyscheduler.api.objects import NodeObject, PodObject
from pyscheduler.api.pod import Pod
from pyscheduler.config.build import build_profiles
from pyscheduler.config.extenders import build_extenders
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.config.rebuild import rebuild_profiles
from pyscheduler.core.commands import (
    Bind,
    CallApi,
    CallExtenders,
    CancelBinding,
    Command,
    Evict,
    GetPod,
    PatchPodGroup,
    PatchStatus,
)
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
from pyscheduler.kube.paths import NODES, PODS
from pyscheduler.shell.binding.cycle import run_binding
from pyscheduler.testing.admission import Admission, grace_seconds, started
from pyscheduler.testing.api import HarnessApiWriter, HarnessClock, call_api
from pyscheduler.testing.binding_cycles import BindingCycles
from pyscheduler.testing.builders import NodeBuilder, PodBuilder
from pyscheduler.testing.configuration import loaded_config
from pyscheduler.testing.failure_log import FailureLog
from pyscheduler.testing.kinds import DEFINITIONS, Kinds, PathTarget
from pyscheduler.testing.objects import Manifest, Objects, condition_of, documents, timestamp, with_condition
from pyscheduler.testing.results import HarnessResults


class Harness(HarnessResults):
    """Scheduler core with a virtual clock and the pods and nodes of a simulated API server."""

    def __init__(
        self, config: str | Path | LoadedConfig | None = None, *, instrument: Instrument | None = None, seed: int = 0
    ) -> None:
        """Start with a configuration: loaded, YAML text, or a path (.yaml, .yml, .json); or with the defaults."""
        self.now = 1000.0
        self._config = loaded_config(config)
        self._instrument, self._seed = instrument or FailureLog(), seed
        self._kinds = Kinds()
        self._objects = Objects(self._kinds)
        self._start()
        self.commands = []
        self.observed: list[tuple[str, tuple[str, ...], float]] = []
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
        self.patch_error: Callable[[str], str] = lambda _path: ""
        """Callback that returns the API server's error for a merge patch by its path; "" patches the object."""
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
        self.evictions: list[tuple[float, str]] = []
        """Time and namespace/name of each evicted pod, in order."""
        self._pods = self._objects.pods
        self._ends: dict[str, float] = {}
        """Time at which evicted pods end, by namespace/name."""
        self._cycles = BindingCycles(lambda: self.now)
        self._admission = Admission(self._objects, lambda: self.now, lambda: list(self.machine.context.profiles))
        self.nodes = self._objects.nodes
        """Manifests of the nodes by name."""

    def _start(self) -> None:
        """Build the scheduler."""
        settings = Settings(
            self._seed,
            self._config.configuration.pod_initial_backoff_seconds,
            self._config.configuration.pod_max_backoff_seconds,
            extenders=build_extenders(self._config.configuration),
            preempts_for_resizes=self._config.preempts_for_resizes,
        )
        self._started = self._config
        self.machine = Machine(partial(build_profiles, self._config), self._instrument, settings)
        self.handle = self.machine.context.handle
        """The handle of the plugins."""
        self._kinds.watch(kind for profile in self.machine.context.profiles.values() for kind in profile.watches)

    # -- API objects ---------------------------------------------------------------------------------------------

    def add(self, *objects: PodBuilder | NodeBuilder) -> None:
        """Create or update pods and nodes. ValueError names what is wrong.

        If no profile is named default-scheduler, the pods of this scheduler, as `pod()` makes them, get the first one.
        """
        for obj in objects:
            if not isinstance(obj, NodeBuilder | PodBuilder):
                raise TypeError(f"add takes pod() and node() builders, not {type(obj).__name__}; apply takes manifests")
            kind = NODES if isinstance(obj, NodeBuilder) else PODS
            with self._objects.unchanged_if_invalid(kind, obj.manifest):
                if isinstance(obj, NodeBuilder):
                    self._write(kind, obj.manifest)
                else:
                    self._show(self._admission.with_scheduler(obj))

    def add_object(self, kind: ResourceKind, obj: dict[str, Any]) -> None:
        """Create or update an object of a kind that plugins watch, or that they read and write through `api`."""
        self._objects.set(kind, obj)
        for watched in self._kinds.watched_as(kind) or (kind,):
            self.handle_event(ObjectChanged(self.now, watched, obj))

    def remove_object(self, kind: ResourceKind, name: str, namespace: str = "default") -> None:
        """Delete an object of a kind other than Pod and Node."""
        self._objects.remove(kind, name, namespace)
        for watched in self._kinds.watched_as(kind) or (kind,):
            self.handle_event(ObjectGone(self.now, watched, namespace, name))

    @property
    def kinds(self) -> Mapping[str, ResourceKind]:
        """Resource kinds of the plugins and of existing objects, by plural."""
        return self._kinds.by_plural()

    def target(self, path: str) -> PathTarget:
        """Return the kind, namespace and name at an API path."""
        return self._kinds.at(path)

    def delete_pod(self, name: str, namespace: str = "default") -> None:
        """Delete a pod at once."""
        if f"{namespace}/{name}" not in self._pods:
            raise ValueError(f"Pod {name} not found in namespace {namespace}")
        gone = self._pods.pop(f"{namespace}/{name}")
        self._ends.pop(f"{namespace}/{name}", None)
        uid = gone.manifest["metadata"]["uid"]
        self.handle_event(PodGone(self.now, namespace, name, uid))
        self.handle_event(SucceededPodGone(self.now, uid))

    def delete_node(self, name: str) -> None:
        """Delete a node. Its pods stay assigned to it."""
        self.nodes.pop(name, None)
        self.handle_event(NodeGone(self.now, name))

    def reconfigure(self, config: str | Path | LoadedConfig) -> tuple[str, ...]:
        """Reload the configuration. Return the settings that need a restart."""
        loaded = self._config = loaded_config(config)
        rebuilt = rebuild_profiles(self._started, loaded, self.machine.context.active_profiles, self.handle)
        for kind in self._kinds.watch(kind for profile in rebuilt.profiles for kind in profile.watches):
            self._list(kind)
        settings = loaded.configuration
        backoffs = settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds
        self.handle_event(Reconfigured(self.now, rebuilt.profiles, *backoffs, build_extenders(settings)))
        return rebuilt.restart

    # -- manifests -----------------------------------------------------------------------------------------------

    def apply(self, manifest: Mapping[str, Any] | str) -> None:
        """Create or update objects from a manifest of any kind, a dict or YAML text. ValueError names what is wrong.

        Fields that the API server sets are set: uid, creationTimestamp and resourceVersion, the namespace `default`,
        the priority of a pod's class, and requests of containers that state only limits. A pod without schedulerName
        gets that of the first profile. An update keeps the status fields and the node that the manifest does not set.
        """
        for each in documents(manifest):
            kind = self._kinds.of(each)
            with self._objects.unchanged_if_invalid(kind, each):
                self._write(kind, self._admission.admit(kind, each))

    def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        """Delete an object at once. ValueError if there is none.

        `kind` is a name such as Pod, or such as PodGroup.scheduling.k8s.io if several groups have the name.
        """
        found = self._objects.kind_of(kind, name, namespace)
        if found is None:
            raise ValueError(f"{kind} {name} not found")
        if found == PODS:
            self.delete_pod(name, namespace)
        elif found == NODES:
            self.delete_node(name)
        else:
            self.remove_object(found, name, namespace if found.namespaced else "")

    def restart(self) -> None:
        """Start the scheduler anew, as after a crash: it lists all objects and has no other state.

        Bindings that the API server has accepted are kept, other binding cycles are lost.
        """
        self._cycles.abandon()
        self.pending_bindings.clear()
        self._start()
        for kind in self._kinds.watched:
            self._list(kind)
        for node in self.nodes.values():
            self.handle_event(NodeChanged(self.now, msgspec.convert(node, NodeObject)))
        for _, pod in sorted(self._pods.items()):
            self.handle_event(PodChanged(self.now, pod.object()))

    # -- bindings ------------------------------------------------------------------------------------------------

    def finish_binding(self, name: str, namespace: str = "default") -> None:
        """Run a suspended binding cycle to its success or failure."""
        if f"{namespace}/{name}" not in self.pending_bindings:
            raise ValueError(f"Pod {name} in namespace {namespace} has no suspended binding cycle")
        self._bind(self.pending_bindings.pop(f"{namespace}/{name}"))

    def confirm_binding(self, name: str, namespace: str = "default") -> None:
        """Send the watch event of a bound pod, for the node of its last binding command."""
        key = f"{namespace}/{name}"
        node_name = next(c.node_name for c in reversed(self.commands) if isinstance(c, Bind) and c.pod.key == key)
        self._show(self._pods[key].on(node_name))

    # -- extenders -----------------------------------------------------------------------------------------------

    def answer(self) -> None:
        """Complete the last extender call with the result of `call_extender`."""
        self._call_extenders(next(c for c in reversed(self.commands) if isinstance(c, CallExtenders)))

    # -- time ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run scheduling cycles until no pod is ready; then validate the invariants of the core's state."""
        while (commands := self.machine.cycle(self.now)) is not None:
            self._execute(commands)
        self._check_state()

    def advance(self, seconds: float) -> None:
        """Advance virtual time by `seconds`, waking the core when it is due and scheduling pods that become ready.

        Pods that are ready now are scheduled first, as by `run`.
        """
        if not seconds >= 0:
            raise ValueError(f"time cannot advance by {seconds} seconds")
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

    # -- internals -----------------------------------------------------------------------------------------------

    def _check_state(self) -> None:
        """Validate the invariants of the core's state. The time that it takes grows with the number of pods."""
        validate(self.machine.context)

    def _show(self, pod: PodBuilder) -> None:
        current = pod.version(self._objects.next_version())
        meta = current.manifest["metadata"]
        self._pods[f"{meta['namespace']}/{meta['name']}"] = current
        self.handle_event(PodChanged(self.now, msgspec.convert(current.manifest, PodObject)))

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
                    self._patch_status(command)
            elif isinstance(command, PatchPodGroup):
                self._patch_pod_group(command)
            elif isinstance(command, CallApi):
                self._call_api(command)
            elif isinstance(command, CallExtenders) and self.complete_extender_calls:
                self._call_extenders(command)

    def _call_api(self, command: CallApi) -> None:
        """Start an API call of a plugin in virtual time."""
        self._cycles.start(command, call_api(command, HarnessApiWriter(self)))
        self._run_bindings()

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
        self.evictions.append((self.now, victim.key))
        if self.graceful:
            self._terminate(self._pods[victim.key].deleting())
        elif (pod := self._pods.get(victim.key)) is not None:
            if seconds := grace_seconds(pod.manifest):
                self._ends.setdefault(victim.key, self.now + seconds)
                self._terminate(pod.deleting(timestamp(self.now + seconds)))
            else:
                self.delete_pod(victim.name, victim.namespace)

    def _terminate(self, pod: PodBuilder) -> None:
        target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        self._show(PodBuilder(with_condition(pod.manifest, target)))

    def _end_pods(self) -> None:
        """Delete the evicted pods that have ended."""
        for key in [key for key, end in self._ends.items() if end <= self.now]:
            if key in self._ends:  # the end of another pod may have removed it
                namespace, _, name = key.partition("/")
                self.delete_pod(name, namespace)

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

    def _patch_status(self, command: PatchStatus) -> None:
        """Apply a status patch. The watch event of a condition alone is left out: the scheduler wrote it itself."""
        key, condition, wanted = command.pod.key, command.condition, command.nominated_node_name
        pod = self._pods.get(key)
        if pod is None or pod.manifest["metadata"]["uid"] != command.pod.uid:
            return
        if condition is not None:
            fields = {"reason": condition.reason, "message": condition.message}
            scheduled = {"type": "PodScheduled", "status": "False", **fields}
            if condition_of(pod.manifest, "PodScheduled") != scheduled:
                pod = self._pods[key] = PodBuilder(with_condition(pod.manifest, scheduled))
        if wanted is not None and wanted != self.nominated(command.pod.name, command.pod.namespace):
            self._show(pod.nominated(wanted))

    def _patch_pod_group(self, command: PatchPodGroup) -> None:
        """Set a condition of a PodGroup that still exists."""
        obj = self._objects.get(command.kind, command.name, command.namespace)
        if obj is not None:
            fields = {"status": command.status, "reason": command.reason, "message": command.message}
            self.add_object(command.kind, self.versioned(with_condition(obj, {"type": command.type, **fields})))

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
                self.accept_binding(command.pod, command.node_name)
                self._show(self._pods[command.pod.key])

    def _next_wake(self) -> float | None:
        """Return the time of the next wake-up of the core or of a binding cycle, or of the end of a pod, or None."""
        wakes = (self.machine.next_wake(), self._cycles.next_wake(), *self._ends.values())
        return min((wake for wake in wakes if wake is not None), default=None)

    def _wake(self) -> None:
        """Send a Tick if one is due, resume binding cycles, delete pods that have ended and run scheduling cycles."""
        if self.machine.is_tick_due(self.now):
            self.handle_event(Tick(self.now))
        self._cycles.wake()
        self._run_bindings()
        self._end_pods()
        self.run()

    def versioned(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the object with a new resourceVersion."""
        meta = {**(body.get("metadata") or {}), "resourceVersion": str(self._objects.next_version())}
        return {**body, "metadata": meta}

    def bind_conflict(self, pod: Pod, node_name: str) -> str:
        """Return the API server's error for a binding, "" if it succeeds."""
        current = self._pods.get(pod.key)
        if current is None or current.manifest["metadata"]["uid"] != pod.uid:
            return f'pods "{pod.name}" not found'
        current_node = current.manifest["spec"].get("nodeName", "")
        if current_node not in ("", node_name):
            return f'pod {pod.name} is already assigned to node "{current_node}"'
        return self.binding_error(pod, node_name)

    def accept_binding(self, pod: Pod, node_name: str) -> None:
        """Bind a pod in the API server. Its watch event is sent when the binding cycle has ended."""
        current = self._pods.get(pod.key)
        if current is not None and not current.manifest["spec"].get("nodeName"):
            self._pods[pod.key] = started(current, node_name, self.now)

    def _write(self, kind: ResourceKind, obj: Manifest) -> None:
        if kind == PODS:
            pod = PodBuilder(obj)
            pod.build()  # an invalid pod must not be stored
            self._show(pod)
        elif kind == NODES:
            self.handle_event(NodeChanged(self.now, msgspec.convert(obj, NodeObject)))
            self.nodes[obj["metadata"]["name"]] = obj
        else:
            if kind == DEFINITIONS:
                self._kinds.define(obj)
            self._objects.set(kind, obj)
            for watched in self._kinds.watched_as(kind):
                self.handle_event(ObjectChanged(self.now, watched, obj))

    def _list(self, kind: ResourceKind) -> None:
        """Send the objects of a newly watched kind."""
        for obj in self._objects.listed(kind):
            self.handle_event(ObjectChanged(self.now, kind, obj))
