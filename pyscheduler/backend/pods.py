"""What the backend reads of a pod, and sets of pods as sources report them: plain values."""

from __future__ import annotations

import msgspec


class PodState(msgspec.Struct, frozen=True, kw_only=True):
    """A pod at one resourceVersion. Times are seconds since the epoch, None where there is none."""

    name: str
    uid: str
    version: int
    """Its resourceVersion; those of one kind compare as numbers (KEP-5504)."""
    task: str = ""
    """The id of its task and which attempt at it the pod is, as its annotations say; "" and 0 if they do not."""
    attempt: int = 0
    phase: str = "Pending"
    """Pending, Running, Succeeded, Failed or Unknown."""
    node: str = ""
    has_finalizer: bool = False
    """Whether our finalizer keeps it."""
    deleting: bool = False
    grace: int = 0
    """While it is deleted: the seconds its containers have to stop. 0 once they have, or if nobody waits for them."""
    delete_at: float | None = None
    """When that time is over."""
    reason: str = ""
    message: str = ""
    waiting: str = ""
    """Why a container waits (ErrImagePull, CrashLoopBackOff …)."""
    exit_code: int | None = None
    """Of the container that ended first with an error, of the first one if all ended well."""
    exit_reason: str = ""
    """OOMKilled, Error, Completed …"""
    disruption: str = ""
    """The reason of its condition DisruptionTarget."""
    unschedulable: str = ""
    """The message of its condition PodScheduled where that is False."""
    created_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None

    @property
    def terminal(self) -> bool:
        """Whether its containers have ended for good."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def stopped(self) -> bool:
        """Whether nothing of it runs any more: it ended, or was deleted and whoever had to stop it has."""
        return self.terminal or (self.deleting and self.grace == 0)


class PodsSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What a source has seen, or what is new to a subscriber."""

    pods: dict[str, PodState] = {}
    """By name."""
    deleted: dict[str, PodState] = {}
    """Tombstones by uid: pods that exist no more, each as it was last; `version` is that of its deletion."""
    complete: bool = False
    """Whether pods that are not in it do not exist."""
    since: int | None = None
    """From a watch: the resource_version that it went on from, so that everything between `since` and `resource_version` is in it."""
    resource_version: int | None = None
    """The resourceVersion up to which it tells everything."""
