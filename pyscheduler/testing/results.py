"""Results of a harness: what the core has commanded and what the simulated API server holds."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pyscheduler.core.commands import Bind, CallExtenders, Command, Evict, PatchStatus, Record
from pyscheduler.core.extenders.extender import ExtenderCall
from pyscheduler.testing.builders import PodBuilder


class HarnessResults:
    """Results of a harness: bindings, evictions, messages and events of pods."""

    commands: list[Command]
    """All commands that the core has issued, oldest first."""
    evictions: list[tuple[float, str]]
    """Time and namespace/name of each evicted pod, in order."""
    _pods: dict[str, PodBuilder]

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
        """Return status.nominatedNodeName, "" if it is not set."""
        status = self._pods[f"{namespace}/{name}"].manifest.get("status", {})
        return str(status.get("nominatedNodeName", ""))

    @property
    def extender_calls(self) -> list[ExtenderCall]:
        """Extender calls that the core has issued, oldest first."""
        return [call for c in self.commands if isinstance(c, CallExtenders) for call in c.calls]

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

    def evicted(self) -> list[str]:
        """Return the names of the evicted pods, in order."""
        return [c.victim.name for c in self.commands if isinstance(c, Evict)]
