"""The real core on virtual time, with a world that answers: what scenarios and plugin tests run on.

    harness = Harness()
    harness.add(node("n1"), pod("a").requests(cpu="1"))
    harness.run()
    assert harness.where == {"a": "n1"}

Bindings succeed at once unless `refuse_binding` says otherwise, and the watch confirms them, as an API server would.
Without `answer_bindings` they take as long as the test likes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from pyscheduler.api.events import ResourceKind
from pyscheduler.api.handle import ApiError
from pyscheduler.api.objects import PodObject
from pyscheduler.api.pod import Pod
from pyscheduler.config.build import build_profiles
from pyscheduler.config.load import default, loads
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.core.commands import Bind, Command, Evict, PatchStatus, Record
from pyscheduler.core.context import Settings
from pyscheduler.core.events import (
    Bound,
    Event,
    NodeChanged,
    NodeGone,
    ObjectChanged,
    ObjectGone,
    PodChanged,
    PodGone,
    Tick,
)
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.invariants import validate
from pyscheduler.core.machine import Machine
from pyscheduler.shell.binding import run_binding
from pyscheduler.testing.builders import NodeBuilder, PodBuilder


class Harness:
    """A machine, a clock that only `advance` moves, and the pods and nodes as an API server would hold them."""

    def __init__(
        self, config: str | LoadedConfig | None = None, *, instrument: Instrument | None = None, seed: int = 0
    ) -> None:
        """`config` is a loaded configuration or its YAML text; the default profile without one."""
        loaded = loads(config) if isinstance(config, str) else config or default()
        self.now = 1000.0
        self.handle = CoreHandle()
        settings = Settings(
            seed,
            loaded.configuration.pod_initial_backoff_seconds,
            loaded.configuration.pod_max_backoff_seconds,
        )
        self.machine = Machine(build_profiles(loaded, self.handle), self.handle, instrument, settings)
        self.commands: list[Command] = []
        """Everything that the machine has asked for, oldest first."""
        self.refuse_binding: Callable[[Pod, str], str] = lambda _pod, _node: ""
        """Why the API server refuses to bind a pod to a node; "" lets it."""
        self.answer_bindings = True
        """False keeps binding cycles from ending, until `finish_binding` or the test tells Bound or BindFailed."""
        self.held: dict[str, Bind] = {}
        """The newest binding that was kept from ending, by namespace/name of the pod."""
        self._pods: dict[str, PodBuilder] = {}
        self._versions = 0

    # -- the world -----------------------------------------------------------------------------------------------

    def add(self, *objects: PodBuilder | NodeBuilder) -> None:
        """Create pods and nodes, or update those of the same name."""
        for obj in objects:
            if isinstance(obj, NodeBuilder):
                self.tell(NodeChanged(self.now, obj.build()))
            else:
                self._show(obj)

    def add_object(self, kind: ResourceKind, obj: dict[str, Any]) -> None:
        """Create or update an object of a kind that some plugin watches."""
        self.tell(ObjectChanged(self.now, kind, obj))

    def remove_object(self, kind: ResourceKind, name: str, namespace: str = "default") -> None:
        """Delete such an object."""
        self.tell(ObjectGone(self.now, kind, namespace, name))

    def delete_pod(self, name: str, namespace: str = "default") -> None:
        """Delete a pod at once."""
        gone = self._pods.pop(f"{namespace}/{name}")
        self.tell(PodGone(self.now, namespace, name, gone.manifest["metadata"]["uid"]))

    def delete_node(self, name: str) -> None:
        """Delete a node; its pods stay bound to it until they are deleted."""
        self.tell(NodeGone(self.now, name))

    # -- bindings ------------------------------------------------------------------------------------------------

    def finish_binding(self, name: str, namespace: str = "default") -> None:
        """Run a binding cycle that was kept from ending; it succeeds or fails as it would have at once."""
        self._bind(self.held.pop(f"{namespace}/{name}"))

    def show_bound(self, name: str, namespace: str = "default") -> None:
        """The watch shows the pod on the node that it was last to be bound to, whatever came of that here."""
        key = f"{namespace}/{name}"
        node_name = next(c.node_name for c in reversed(self.commands) if isinstance(c, Bind) and c.pod.key == key)
        self._show(self._pods[key].on(node_name))

    # -- time ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Make attempts until no pod is ready for one; then check that the machine's memory is sound."""
        while (commands := self.machine.cycle(self.now)) is not None:
            self._carry_out(commands)
        validate(self.machine.context)

    def advance(self, seconds: float) -> None:
        """Let time pass, in steps at which the machine wants to be woken, making attempts as pods become ready."""
        end = self.now + seconds
        while (wake := self.machine.next_wake()) is not None and wake <= end:
            # A wake that is due already must not stop time.
            self.now = max(wake, self.now)
            self.tell(Tick(self.now))
            self.run()
            following = self.machine.next_wake()
            if following is not None and following <= self.now:
                self.now = min(end, self.now + 1.0)
                if self.now == end:
                    break
        self.now = end
        self.tell(Tick(end))
        self.run()

    # -- what came of it -----------------------------------------------------------------------------------------

    @property
    def where(self) -> dict[str, str]:
        """The node of every bound pod, by pod name."""
        bound = {p.manifest["metadata"]["name"]: p.manifest["spec"].get("nodeName", "") for p in self._pods.values()}
        return {name: node for name, node in bound.items() if node}

    @property
    def bound_order(self) -> list[str]:
        """The names of the pods in the order in which binding began."""
        return [c.pod.name for c in self.commands if isinstance(c, Bind)]

    def events(self, name: str) -> list[tuple[str, str]]:
        """The events of a pod as (reason, note), oldest first."""
        return [(c.reason, c.note) for c in self.commands if isinstance(c, Record) and c.regarding.name == name]

    def why_pending(self, name: str) -> str:
        """The message of the pod's newest PodScheduled condition, "" if it has none."""
        patches = [c for c in self.commands if isinstance(c, PatchStatus) and c.pod.name == name and c.condition]
        return patches[-1].condition.message if patches and patches[-1].condition else ""

    def evicted(self) -> list[str]:
        """The names of the pods to be evicted, in order."""
        return [c.victim.name for c in self.commands if isinstance(c, Evict)]

    # -- inside --------------------------------------------------------------------------------------------------

    def _show(self, pod: PodBuilder) -> None:
        self._versions += 1
        current = pod.version(self._versions)
        meta = current.manifest["metadata"]
        self._pods[f"{meta['namespace']}/{meta['name']}"] = current
        self.tell(PodChanged(self.now, msgspec.convert(current.manifest, PodObject)))

    def tell(self, event: Event) -> None:
        """Give the machine an event of the test's own making."""
        self._carry_out(self.machine.handle(event))

    def _carry_out(self, commands: Sequence[Command]) -> None:
        for command in commands:
            self.commands.append(command)
            if isinstance(command, Bind):
                if self.answer_bindings:
                    self._bind(command)
                else:
                    self.held[command.pod.key] = command

    def _bind(self, command: Bind) -> None:
        """The binding cycle, with an API server that only knows how to bind."""
        pod = command.pod
        outcome = asyncio.run(run_binding(command, _Api(self._refusal), _StoppedClock(self.now)))
        self.tell(outcome)
        if isinstance(outcome, Bound):
            self._show(self._pods[pod.key].on(command.node_name))

    def _refusal(self, pod: Pod, node_name: str) -> str:
        current = self._pods.get(pod.key)
        if current is None or current.manifest["metadata"]["uid"] != pod.uid:
            return f'pods "{pod.name}" not found'
        elsewhere = current.manifest["spec"].get("nodeName", "")
        if elsewhere not in ("", node_name):
            return f'pod {pod.name} is already assigned to node "{elsewhere}"'
        return self.refuse_binding(pod, node_name)


class _StoppedClock:
    """The shell's clock while the harness's time stands still."""

    def __init__(self, now: float) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def wall(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(f"nothing in a binding cycle may wait here, asked for {seconds} s")


class _Api:
    """An ApiWriter that binds, or refuses to; everything else succeeds and changes nothing."""

    def __init__(self, refuse: Callable[[Pod, str], str]) -> None:
        self._refuse = refuse

    async def bind(self, pod: Pod, node_name: str) -> None:
        refusal = self._refuse(pod, node_name)
        if refusal:
            raise ApiError(409, "Conflict", refusal)

    async def get(self, path: str) -> dict[str, Any]:
        return {"path": path}

    async def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return {"path": path, **body}

    async def replace(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return {"path": path, **body}

    async def merge(self, path: str, patch: Mapping[str, Any]) -> dict[str, Any]:
        return {"path": path, **patch}

    async def delete(self, path: str) -> None:
        assert path
