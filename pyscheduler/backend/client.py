"""Calls of the API server, as few and as plain as the backend needs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from pyscheduler.backend.pods import PodsSnapshot, PodState
from pyscheduler.backend.task import Json


class ClusterProblem(Exception):
    """A call failed. `status` is the HTTP code (0: no answer at all), `reason` the word that Kubernetes gives."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason = status, reason


class PodsApi(Protocol):
    """What the backend asks of a cluster, in one namespace. Every call raises ClusterProblem where it fails."""

    async def create_pod(self, body: Json) -> PodState:
        """409 if there is one of that name."""
        ...

    async def get_pod(self, name: str) -> PodState:
        """404 if there is none."""
        ...

    async def release_pod(self, name: str, uid: str) -> None:
        """Take our finalizer off, and no one else's. 404 or 409 if the pod of that uid is gone."""
        ...

    async def delete_pod(self, name: str, uid: str, grace: int | None = None) -> None:
        """Ask for its deletion. 404 or 409 if the pod of that uid is gone."""
        ...

    async def list_pods(self, selector: str) -> PodsSnapshot:
        """All pods with the labels, complete, at one place."""
        ...

    def watch_pods(self, selector: str, place: int) -> AsyncIterator[PodsSnapshot]:
        """What happens after the place, as it comes, until the server ends it. 410: the place is too old."""
        ...

    async def create_object(self, path: str, body: Json) -> None:
        """Create any other object in the namespace; `path` such as "apis/scheduling.x-k8s.io/v1alpha1/podgroups"."""
        ...

    async def delete_object(self, path: str, name: str) -> None:
        """Delete such an object."""
        ...

    async def list_objects(self, path: str) -> list[Json]:
        """All such objects of the namespace."""
        ...
