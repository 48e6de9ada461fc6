"""Members of one pod group."""

from __future__ import annotations

from pyscheduler.api.outcome import Rejection
from pyscheduler.api.pod import Pod, PodSignature
from pyscheduler.api.pod_group import PodGroup, PodGroupKey
from pyscheduler.core.pod_groups.subgroups import SubgroupKeys


class PodGroupState:
    """Members of one group."""

    __slots__ = (
        "accounted",
        "condition",
        "key",
        "minimum",
        "newest",
        "placed",
        "pods",
        "previous",
        "requirements",
        "subgroup_conditions",
        "subgroups",
        "succeeded",
    )

    def __init__(self, key: PodGroupKey) -> None:
        self.key = key
        self.pods: dict[str, Pod] = {}
        """Pending and assigned pods by UID, without those that are terminating or have ended."""
        self.placed: set[str] = set()
        """UIDs of those that are assigned or assumed."""
        self.succeeded: dict[str, Pod] = {}
        """Pods that have succeeded and still exist; they count toward the minimum."""
        self.requirements: PodGroup | Rejection | None = None
        """Requirements, or the reason why no member can be scheduled; None if they have to be read."""
        self.previous: PodGroup | None = None
        """Requirements before the members since then came, if nothing else has changed; None if they are read."""
        self.accounted: PodGroup | None = None
        """Requirements with which the usage was reported last, which count while the current ones are invalid."""
        self.newest: PodSignature | None = None
        """Signature of the last new pod; the requirements do not change with another pod of it."""
        self.condition = ("", "", "")
        """Status, reason and message of the condition that was written last."""
        self.subgroups: SubgroupKeys | None = None
        """Subgroups of the members; None if they have to be found."""
        self.minimum: tuple[PodGroup, object, bool] | None = None
        """Requirements, members, and True if the minimum exists with these; None if it has not been counted."""
        self.subgroup_conditions: dict[PodGroupKey, tuple[str, str, str]] = {}
        """The last condition of each subgroup that is an object."""

    def invalidate(self) -> None:
        """Read the requirements again when they are needed next."""
        self.requirements = self.previous = None

    @property
    def is_tree(self) -> bool:
        """True if the group is known to have subgroups."""
        known = self.requirements or self.previous
        return isinstance(known, PodGroup) and bool(known.subgroups)

    @property
    def started_count(self) -> int:
        """Number of members that have a node or have succeeded."""
        return len(self.placed) + len(self.succeeded)

    @property
    def started(self) -> list[Pod]:
        """Members that have a node or have succeeded."""
        return [*(self.pods[uid] for uid in self.placed), *self.succeeded.values()]
