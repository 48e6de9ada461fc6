"""Errors that end an allocation; the texts are those of kube-scheduler's allocator."""

from __future__ import annotations


class AllocationError(Exception):
    """The claims, classes or devices are wrong: no other node is tried, and the pod is retried with backoff."""


class NodeAllocationError(AllocationError):
    """No allocation on this node; the text is the reason that its pod is shown (ErrFailedAllocationOnNode)."""


class AllocationTimeoutError(AllocationError):
    """The search took more steps than allowed, as a context with a deadline ends kube-scheduler's."""

    def __init__(self) -> None:
        super().__init__("filter operation aborted: context deadline exceeded")


class SearchTooLongError(AllocationTimeoutError):
    """One node takes more steps than allowed: unlike other timeouts, it recurs until devices or their use change."""


class CapacityError(Exception):
    """An amount that has no valid representation; the allocator puts the place in front of the text."""
