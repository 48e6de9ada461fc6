"""PodGroups of gangs: created before a gang's first pod, deleted after its last task."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from pyscheduler.api import ApiError
from pyscheduler.backend.client import PodsApi
from pyscheduler.backend.task import TaskSpec
from pyscheduler.backend.task_table import TaskTable
from pyscheduler.backend.template import POD_GROUPS, pod_group, selector

_MISSING, _CONFLICT = 404, 409


class TaskPodGroups:
    """PodGroups of one backend; `table` lists the gangs that have tasks."""

    def __init__(self, client: PodsApi, table: TaskTable, backend: str) -> None:
        self._client, self._table, self._backend = client, table, backend
        self._existing: set[str] = set()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def ensure(self, spec: TaskSpec) -> None:
        """Create the PodGroup of the task's gang, if it has one and the group does not exist. ApiError."""
        gang = spec.gang
        if gang is None:
            return
        async with self._locks[gang.name]:
            if gang.name in self._existing:
                return
            try:
                await self._client.create_object(POD_GROUPS, pod_group(spec, self._backend))
            except ApiError as problem:
                if problem.status == _MISSING:
                    why = f"gang {gang.name!r}: the cluster has no PodGroups; install the CRD in manifests/: {problem}"
                    raise ApiError(_MISSING, problem.reason, why) from None
                if problem.status != _CONFLICT:
                    raise
            self._existing.add(gang.name)

    async def drop(self, gang: str) -> None:
        """Delete the gang's PodGroup, unless the gang has tasks again. ApiError."""
        async with self._locks[gang]:
            if self._table.gang_size(gang):
                return
            self._existing.discard(gang)
            try:
                await self._client.delete_object(POD_GROUPS, gang)
            except ApiError as problem:
                if problem.status != _MISSING:
                    raise

    async def sweep(self) -> None:
        """Delete the unused PodGroups that an earlier process left. ApiError."""
        try:
            groups = await self._client.list_objects(POD_GROUPS, selector(self._backend))
        except ApiError as problem:
            if problem.status == _MISSING:
                return  # the CRD is not installed, so there are no groups
            raise
        for group in groups:
            await self.drop(str(group["metadata"]["name"]))
