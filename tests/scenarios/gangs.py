"""Scheduler with the Gang plugin on virtual time, for scenarios."""

from __future__ import annotations

from typing import Any

from pyscheduler.core.commands import PatchStatus
from pyscheduler.testing import Harness, NodeBuilder, PodBuilder, node, pod
from pyscheduler_plugins.pod_group import POD_GROUP, POD_GROUP_LABEL

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: Gang}]}}
"""


class Cluster(Harness):
    """Harness with the Gang plugin."""

    def __init__(self, slots: int = 0) -> None:
        super().__init__(CONFIG)
        self.add(*(slot(i) for i in range(slots)))

    @property
    def attempts(self) -> int:
        return sum(q.attempts for q in self.machine.context.queue.pending())

    def group(self, name: str, min_member: int, **spec: Any) -> None:
        """Create or update a PodGroup."""
        body = {"minMember": min_member, **spec}
        self.add_object(POD_GROUP, {"metadata": {"name": name, "namespace": "default"}, "spec": body})

    def gang(self, name: str, of: int, min_member: int | None = None, **spec: Any) -> list[PodBuilder]:
        """Create a PodGroup, and return its pods for the caller to create."""
        self.group(name, min_member or of, **spec)
        return [member(f"{name}{i}", name) for i in range(of)]

    def members(self, group: str) -> int:
        """Number of bound members of a gang."""
        return sum(name.startswith(group) for name in self.assignments)

    @property
    def waiting(self) -> set[str]:
        """Names of the pods that wait in Permit."""
        return {waiting.pod.name for waiting in self.handle.waiting_pods}

    def reason(self, name: str) -> str:
        """Return the reason of the pod's newest PodScheduled condition, or ""."""
        patches = [c for c in self.commands if isinstance(c, PatchStatus) and c.pod.name == name]
        return next((c.condition.reason for c in reversed(patches) if c.condition), "")

    def end(self, name: str, phase: str = "Succeeded") -> None:
        """End a pod on its node."""
        self._show(self._pods[f"default/{name}"].status(phase=phase))

    def replace_victims(self, *victims: PodBuilder, seconds: int) -> None:
        """Advance the time, while a controller recreates evicted victims, each time with another UID."""
        for minute in range(seconds // 60):
            for victim in victims:
                name = victim.manifest["metadata"]["name"]
                if f"default/{name}" not in self._pods:
                    self.add(victim.uid(f"{name}-{minute}"))
            self.run()
            self.advance(60)


def member(name: str, group: str, cpu: str = "1") -> PodBuilder:
    """Return a pod of a gang."""
    return pod(name).label(POD_GROUP_LABEL, group).requests(cpu=cpu)


def slot(i: int) -> NodeBuilder:
    """Return a node with room for one member."""
    return node(f"slot{i}", cpu="1")


def elsewhere(of: PodBuilder) -> PodBuilder:
    """Return a member of another scheduler."""
    return of.scheduler("another-scheduler")
