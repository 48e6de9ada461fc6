"""Keeps the PodGroup of each gang: there before its first pod, gone after its last task."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from pyscheduler.backend.client import ClusterProblem, PodsApi
from pyscheduler.backend.task import TaskSpec
from pyscheduler.backend.task_table import TaskTable
from pyscheduler.backend.template import POD_GROUPS, pod_group, selector

_MISSING, _THERE = 404, 409


class PodGroups:
    """The PodGroups of one backend; `table` knows which gangs have tasks."""

    def __init__(self, client: PodsApi, table: TaskTable, backend: str) -> None:
        self._client, self._table, self._backend = client, table, backend
        self._there: set[str] = set()
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def ensure(self, spec: TaskSpec) -> None:
        """Have the PodGroup of the task's gang, if it is of one. ClusterProblem."""
        gang = spec.gang
        if gang is None:
            return
        async with self._turns[gang.name]:
            if gang.name in self._there:
                return
            try:
                await self._client.create_object(POD_GROUPS, pod_group(spec, self._backend))
            except ClusterProblem as problem:
                if problem.status == _MISSING:
                    why = f"gang {gang.name!r}: the cluster has no PodGroups; install the CRD in manifests/: {problem}"
                    raise ClusterProblem(_MISSING, problem.reason, why) from None
                if problem.status != _THERE:
                    raise
            self._there.add(gang.name)

    async def drop(self, gang: str) -> None:
        """Delete the gang's PodGroup, unless it has tasks again. ClusterProblem."""
        async with self._turns[gang]:
            if self._table.gang_size(gang):
                return
            self._there.discard(gang)
            try:
                await self._client.delete_object(POD_GROUPS, gang)
            except ClusterProblem as problem:
                if problem.status != _MISSING:
                    raise

    async def sweep(self) -> None:
        """Delete what an earlier process has left. ClusterProblem."""
        try:
            found = await self._client.list_objects(POD_GROUPS, selector(self._backend))
        except ClusterProblem as problem:
            if problem.status == _MISSING:
                return  # no such kind, no such objects
            raise
        for group in found:
            await self.drop(str(group["metadata"]["name"]))
