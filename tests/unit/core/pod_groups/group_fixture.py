"""PodGroup plugin that reads groups from labels, with requirements that tests set."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from pyscheduler.api import Handle, NoArgs, Pod, PodGroup, PodGroupKey, PodGroupPlugin, Rejection
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.pod_groups.manager import PodGroupManager
from pyscheduler.testing.builders import PodBuilder, pod

KEY = PodGroupKey("default", "a")


class LabelGroups(PodGroupPlugin):
    """Group of the pods with a label `group`; their role is the label `role`."""

    name = "LabelGroups"

    def __init__(self) -> None:
        super().__init__(NoArgs(), cast(Handle, None))
        self.requirements: PodGroup | Rejection = PodGroup(KEY, 2)
        self.reads = 0
        self.raises = False

    def group_of(self, pod: Pod) -> PodGroupKey | None:
        if "broken" in pod.labels:
            raise RuntimeError("no group")
        name = pod.labels.get("group")
        return PodGroupKey(pod.namespace, name) if name else None

    def role_of(self, pod: Pod) -> str:
        return pod.labels.get("role", "")

    def pod_group(self, key: PodGroupKey, members: Collection[Pod]) -> PodGroup | Rejection:
        self.reads += 1
        if self.raises:
            raise RuntimeError("no requirements")
        return self.requirements


class Failures(Instrument):
    """Records the extension points of plugins that raised."""

    def __init__(self) -> None:
        self.points: list[str] = []

    def plugin_failed(self, plugin: str, point: str, error: BaseException) -> None:
        self.points.append(f"{plugin} {point}")


class GroupFixture:
    """Manager of pod groups with the plugin."""

    def __init__(self) -> None:
        self.plugin, self.failures = LabelGroups(), Failures()
        self.manager = PodGroupManager(self.failures)
        self.manager.use({"default-scheduler": self.plugin}, None, (), ())

    def add(self, name: str, role: str = "") -> Pod:
        """Add a pending member."""
        added = member(name, role).build()
        self.manager.set_pod(added)
        return added


def member(name: str, role: str = "") -> PodBuilder:
    """Return a pod of group `a`."""
    built = pod(name).label("group", "a")
    return built.label("role", role) if role else built
