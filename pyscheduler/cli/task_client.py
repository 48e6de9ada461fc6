"""Client of the commands of `tasks` that call the API server themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pyscheduler.api import ApiError
from pyscheduler.backend.client import KubernetesClient
from pyscheduler.kube.errors import UNREACHABLE


@asynccontextmanager
async def connected(namespace: str, kubeconfig: str | Path | None, context: str) -> AsyncIterator[KubernetesClient]:
    """Open a client. ConnectionProblem names server and kubeconfig if a call in the block cannot reach the server."""
    async with KubernetesClient(namespace, kubeconfig=kubeconfig, context=context) as client:
        try:
            yield client
        except ApiError as problem:
            if problem.reason == UNREACHABLE:
                await client.lister_watcher.check()
            raise
