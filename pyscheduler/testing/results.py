"""Results of a harness: what the core has commanded and what the simulated API server holds."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from pyscheduler.api.events import ResourceKind
from pyscheduler.core.commands import Bind, CallExtenders, Command, Evict, PatchStatus, Record
from pyscheduler.core.extenders.extender import ExtenderCall
from pyscheduler.testing.builders import PodBuilder
from pyscheduler.testing.objects import Objects, condition_of


class HarnessResults:
    """Results of a harness: bindings, evictions, messages and events of pods.

    A pod that was never added is a ValueError, so that a misspelt name does not look like a pod without results.
    """

    commands: list[Command]
    """All commands that the core has issued, oldest first."""
    evictions: list[tuple[float, str]]
    """Time and namespace/name of each evicted pod, in order."""
    _pods: dict[str, PodBuilder]
    _objects: Objects

    @property
    def bindings(self) -> dict[str, str]:
        """Node names of the bound pods that still exist, by namespace/name."""
        bound = {key: pod.manifest["spec"].get("nodeName", "") for key, pod in self._pods.items()}
        return {key: node for key, node in bound.items() if node}

    @property
    def assignments(self) -> dict[str, str]:
        """Node names of the bound pods by pod name."""
        return {key.partition("/")[2]: node for key, node in self.bindings.items()}

    @property
    def pods(self) -> Mapping[str, PodBuilder]:
        """Pods in the API server by namespace/name."""
        return MappingProxyType(self._pods)

    def nominated(self, name: str, namespace: str = "default") -> str:
        """Return status.nominatedNodeName, "" if it is not set or the pod was deleted."""
        pod = self.pod(name, namespace)
        self._require(name, pod is not None)
        return str((pod or {}).get("status", {}).get("nominatedNodeName", ""))

    def pod(self, name: str, namespace: str = "default") -> dict[str, Any] | None:
        """Return the manifest of a pod in the API server, or None."""
        return builder.manifest if (builder := self._pods.get(f"{namespace}/{name}")) else None

    def object(self, kind: ResourceKind, name: str, namespace: str) -> dict[str, Any] | None:
        """Return an object of a kind other than Pod and Node as it was written last, or None."""
        return self._objects.get(kind, name, namespace)

    def condition(self, kind: str, name: str, condition_type: str) -> dict[str, Any] | None:
        """Return the last written condition of an object (`namespace/name`), or None. `kind` as in `delete`."""
        namespace, _, last = name.rpartition("/")
        found = self._objects.kind_of(kind, last, namespace or "default")
        return condition_of(self._objects.get(found, last, namespace or "default"), condition_type) if found else None

    @property
    def extender_calls(self) -> list[ExtenderCall]:
        """Extender calls that the core has issued, oldest first."""
        return [call for c in self.commands if isinstance(c, CallExtenders) for call in c.calls]

    @property
    def bound_order(self) -> list[str]:
        """Names of pods in the order of their binding commands."""
        return [c.pod.name for c in self.commands if isinstance(c, Bind)]

    def events(self, name: str) -> list[tuple[str, str]]:
        """Return the events of a pod or another object as (reason, note), oldest first."""
        found = [(c.reason, c.note) for c in self.commands if isinstance(c, Record) and c.regarding.name == name]
        self._require(name, bool(found))
        return found

    def pending_message(self, name: str) -> str:
        """Return the message of the pod's last PodScheduled condition, "" if it has none."""
        patches = [c for c in self.commands if isinstance(c, PatchStatus) and c.pod.name == name and c.condition]
        self._require(name, bool(patches))
        return patches[-1].condition.message if patches and patches[-1].condition else ""

    def evicted(self) -> list[str]:
        """Return the names of the evicted pods, in order."""
        return [c.victim.name for c in self.commands if isinstance(c, Evict)]

    def _require(self, name: str, is_found: bool) -> None:
        """Raise ValueError if there are no results of an object because none with the name was ever added."""
        if not is_found and name not in self._objects.names:
            close = "".join(f"; did you mean {near!r}?" for near in get_close_matches(name, self._objects.names, n=1))
            raise ValueError(f"no object named {name!r} was added{close}")
