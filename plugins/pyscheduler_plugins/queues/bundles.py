"""Bundles: running pods of a job that are evicted together or not at all."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from pyscheduler.api.resources import Amounts


class RunningPod(Struct, frozen=True):
    """A running pod of a job."""

    name: str
    resources: Amounts
    started: float = 0.0


class Bundle(Struct, frozen=True):
    """Running pods that are evicted together."""

    job: str
    """Key of the job."""
    queue: str
    pods: tuple[str, ...]
    resources: Amounts
    """Sum of what the pods have allocated."""
    is_whole: bool = False
    """True for all pods of the job, which then stops; False for surplus above its minimum."""
    priority: int = 0
    started: float = 0.0
    """Start of the newest pod."""
    title: str = ""
    """Name of the job in messages; "" for its key."""

    def __str__(self) -> str:
        if self.is_whole and len(self.pods) > 1:
            return f"gang {self.title or self.job} of {len(self.pods)}"
        return f"pod {self.pods[0]}"


def bundles_of(job: str, queue: str, pods: Iterable[RunningPod], minimum: int, priority: int = 0) -> list[Bundle]:
    """Return the bundles of a job: its newest pods above the minimum one by one, and all its pods."""
    newest_first = sorted(pods, key=lambda pod: -pod.started)
    surplus = max(0, len(newest_first) - max(0, minimum))
    bundles = [_bundle(job, queue, [pod], priority) for pod in newest_first[:surplus]]
    if surplus < len(newest_first):
        bundles.append(_bundle(job, queue, newest_first, priority, is_whole=True))
    return bundles


def _bundle(job: str, queue: str, pods: list[RunningPod], priority: int, *, is_whole: bool = False) -> Bundle:
    resources: Amounts = {}
    for pod in pods:
        for resource, amount in pod.resources.items():
            resources[resource] = resources.get(resource, 0) + amount
    return Bundle(job, queue, tuple(pod.name for pod in pods), resources, is_whole, priority, pods[0].started)
