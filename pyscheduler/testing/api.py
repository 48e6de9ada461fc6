"""API client for plugins under test: reads and writes the pods, nodes and other objects of the harness.

Requests for other resources succeed and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pyscheduler.api.events import ResourceKind
from pyscheduler.api.handle import ApiError
from pyscheduler.api.metrics import PluginMetric
from pyscheduler.api.pod import Pod
from pyscheduler.core.commands import CallApi, Command, EventType, Record
from pyscheduler.kube.paths import PODS
from pyscheduler.shell.api_calls import retry_delay
from pyscheduler.testing.builders import PodBuilder
from pyscheduler.testing.kinds import PathTarget
from pyscheduler.testing.objects import timestamp

_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
Object = dict[str, Any]


class HarnessState(Protocol):
    """The objects and the time of a harness."""

    nodes: dict[str, Object]
    commands: list[Command]
    observed: list[tuple[str, tuple[str, ...], float]]
    now: float

    def target(self, path: str) -> PathTarget: ...

    def pod(self, name: str, namespace: str = "default") -> Object | None: ...

    def object(self, kind: ResourceKind, name: str, namespace: str) -> Object | None: ...

    def add_object(self, kind: ResourceKind, obj: Object) -> None: ...

    def remove_object(self, kind: ResourceKind, name: str, namespace: str = "default") -> None: ...

    def versioned(self, body: Mapping[str, Any]) -> Object: ...

    def bind_conflict(self, pod: Pod, node_name: str) -> str: ...

    def accept_binding(self, pod: Pod, node_name: str) -> None: ...

    @property
    def patch_error(self) -> Callable[[str], str]: ...

    def add(self, *objects: PodBuilder) -> None: ...

    async def sleep(self, seconds: float) -> None: ...


class HarnessApiWriter:
    """ApiWriter with the harness's state and virtual time."""

    def __init__(self, harness: HarnessState) -> None:
        self._harness = harness

    async def bind(self, pod: Pod, node_name: str) -> None:
        error = self._harness.bind_conflict(pod, node_name)
        if error:
            raise ApiError(409, "Conflict", error)
        self._harness.accept_binding(pod, node_name)

    async def get(self, path: str) -> Object:
        return self._find(self._harness.target(path)) or {"path": path}

    async def create(self, path: str, body: Mapping[str, Any]) -> Object:
        target = self._harness.target(path)
        if target.kind is None:
            return {"path": path, **body}
        return self._write(target.kind, {**body, "metadata": self._created(target, body)})

    async def replace(self, path: str, body: Mapping[str, Any]) -> Object:
        target = self._harness.target(path)
        current, kind = self._find(target), target.kind
        if current is not None and kind is not None and _version(current) != _version(body):
            message = f'Operation cannot be fulfilled on {kind.plural} "{target.name}": {_MODIFIED}'
            raise ApiError(409, "Conflict", message)
        return self._harness.versioned(body) if kind is None else self._write(kind, body)

    async def merge(self, path: str, patch: Mapping[str, Any]) -> Object:
        target = self._harness.target(path)
        current = self._find(target)
        if error := self._harness.patch_error(path):
            raise ApiError(403, "Forbidden", error)
        if current is None or (target.kind is None and target.plural != "pods"):
            return {"path": path, **patch}
        uid = (patch.get("metadata") or {}).get("uid", current["metadata"].get("uid"))
        if uid != current["metadata"].get("uid"):
            raise ApiError(409, "Conflict", f"Precondition failed: UID in precondition: {uid}")
        merged: Object = _merged(current, patch)
        if target.kind is not None and target.kind != PODS:
            return self._write(target.kind, merged)
        self._harness.add(PodBuilder(merged))
        return merged

    async def delete(self, path: str) -> None:
        target = self._harness.target(path)
        current = self._find(target)
        if current is not None and target.kind is not None:
            meta = current.get("metadata") or {}
            self._harness.remove_object(target.kind, meta["name"], meta.get("namespace", ""))

    async def sleep(self, seconds: float) -> None:
        await self._harness.sleep(seconds)

    def timestamp(self) -> str:
        return timestamp(self._harness.now)

    def record(self, pod: Pod, reason: str, action: str, note: str) -> None:
        self._harness.commands.append(Record(EventType.NORMAL, reason, action, note, pod))

    def observe(self, metric: PluginMetric, labels: tuple[str, ...] = (), value: float = 1) -> None:
        self._harness.observed.append((metric.name, labels, value))

    def _find(self, target: PathTarget) -> Object | None:
        """Return an object, or None if the harness has no such kind. ApiError 404 if it is missing."""
        if target.kind is not None:
            found = self._harness.object(target.kind, target.name, target.namespace)
        elif target.plural == "pods":
            found = self._harness.pod(target.name, target.namespace)
        elif target.plural == "nodes":
            found = self._harness.nodes.get(target.name)
        else:
            return None
        if found is None:
            raise ApiError(404, "NotFound", f'{target.plural} "{target.name}" not found')
        return found

    def _created(self, target: PathTarget, body: Mapping[str, Any]) -> Object:
        """Return the metadata of a new object, with what the API server sets."""
        meta = {"namespace": target.namespace, **(body.get("metadata") or {})}
        if "name" not in meta and "generateName" in meta:
            version = self._harness.versioned({})["metadata"]["resourceVersion"]
            meta["name"] = f"{meta['generateName']}{version}"
        return {"uid": f"uid-{target.plural}-{meta.get('name')}", "creationTimestamp": self.timestamp(), **meta}

    def _write(self, kind: ResourceKind, body: Mapping[str, Any]) -> Object:
        written = self._harness.versioned(body)
        self._harness.add_object(kind, written)
        return written


async def call_api(command: CallApi, api: HarnessApiWriter) -> None:
    """Make the call of a command, again after each failure if the command retries."""
    failures = 0
    while True:
        try:
            return await command.call(api)
        except ApiError:
            if not command.retries:
                raise
        failures += 1
        await api.sleep(retry_delay(failures))


class HarnessClock:
    """Clock of the binding cycle in virtual time."""

    def __init__(self, now: Callable[[], float], harness: HarnessState) -> None:
        self.now = now
        self.wall = now
        self.sleep = harness.sleep


def _version(obj: Mapping[str, Any]) -> Any:
    return (obj.get("metadata") or {}).get("resourceVersion")


def _merged(current: Any, patch: Any) -> Any:
    """Return `current` with a JSON merge patch applied (RFC 7386)."""
    if not isinstance(patch, Mapping):
        return patch
    base = current if isinstance(current, Mapping) else {}
    unchanged = {key: value for key, value in base.items() if key not in patch}
    return unchanged | {key: _merged(base.get(key), value) for key, value in patch.items() if value is not None}
