"""Members of one pod group, as the scheduler counts them."""

from __future__ import annotations

from pyscheduler.api.outcome import Rejection
from pyscheduler.api.pod import Pod, PodSignature
from pyscheduler.api.pod_group import PodGroup, PodGroupKey


class PodGroupState:
    """Members of one group."""

    __slots__ = ("condition", "key", "newest", "placed", "pods", "previous", "requirements", "succeeded")

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
        self.newest: PodSignature | None = None
        """Signature of the last new pod; the requirements do not change with another pod of it."""
        self.condition = ("", "", "")
        """Status, reason and message of the condition that was written last."""

    def invalidate(self) -> None:
        """Read the requirements again when they are needed next."""
        self.requirements = self.previous = None

    @property
    def started_count(self) -> int:
        """Number of members that have a node or have succeeded."""
        return len(self.placed) + len(self.succeeded)

    @property
    def started(self) -> list[Pod]:
        """Members that have a node or have succeeded."""
        return [*(self.pods[uid] for uid in self.placed), *self.succeeded.values()]
