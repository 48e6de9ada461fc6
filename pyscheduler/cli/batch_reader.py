"""Lists the objects that pod groups and queues are computed from, as far as the user may list them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from pyscheduler import logs
from pyscheduler.api import ApiError, ResourceKind
from pyscheduler.api.objects import NodeObject, ObjectMeta, PodObject
from pyscheduler.cli.batch_cluster import ListedObjects, ReadScope
from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.embedded.client.kinds import JOBS
from pyscheduler.kube.connection import Connection
from pyscheduler.kube.decode import UNREADABLE
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.paths import NODES, PODS, collection

_NOT_FAILED: Final = "status.phase!=Failed"
"""Failed pods use nothing and count toward no minimum."""
_SUCCEEDED: Final = "Succeeded"
_JOB_SUCCESS: Final = ("SuccessCriteriaMet", "Complete")
_SUCCESS_POLICY: Final = "SuccessPolicy"
"""Reason of these conditions if the Job met its success policy (JobReasonSuccessPolicy)."""
_JOB_VERSION: Final = "batch/v1"
_FORBIDDEN: Final = 403
_NOT_SERVED: Final = (403, 404)
"""Statuses of discovery for a version that the API server does not serve."""
_log = logs.get("batch")


class ObjectReader:
    """Lists the objects of a BatchCluster: of all namespaces or, if that is forbidden, of one."""

    def __init__(self, connection: Connection, kinds: Iterable[ResourceKind], namespace: str = "") -> None:
        """`kinds` are listed besides pods and nodes; `namespace` is the one to read if not all may be read."""
        self._connection, self._client = connection, ObjectClient(connection)
        self._kinds, self._namespace = list(kinds), namespace

    async def read(self) -> ListedObjects:
        """Return all objects that the user may list. CommandProblem if there are no pods among them; ApiError."""
        kinds = await self._served()
        lists = await asyncio.gather(*map(self._list, (PODS, NODES, *kinds)))
        pods, nodes, *others = (each.items for each in lists)
        scope = ReadScope(
            next((each.namespace for each in lists if each.namespace), ""),
            tuple(kind for each, kind in zip(lists, (PODS, NODES, *kinds), strict=True) if each.problem),
        )
        if PODS in scope.forbidden:
            where = f"namespace {self._namespace}" if self._namespace else "all namespaces"
            hint = "" if self._namespace else "; for one namespace: -n NAMESPACE"
            raise CommandProblem(f"you may not list pods in {where}: {lists[0].problem}{hint}")
        decoded = [(kind, obj) for kind, items in zip(kinds, others, strict=True) for obj in _decoded(items, dict)]
        return ListedObjects(_decoded(pods, PodObject), _decoded(nodes, NodeObject), decoded, scope)

    async def succeeded_jobs(self, pods: Sequence[PodObject]) -> frozenset[str]:
        """Return the UIDs of the Jobs that met their success policy, none if they cannot be listed.

        They are listed only if all pods that are left of some Job have succeeded.
        """
        succeeded = {_job_of(pod) for pod in pods if pod.status.phase == _SUCCEEDED}
        if not succeeded - {_job_of(pod) for pod in pods if pod.status.phase != _SUCCEEDED} - {""}:
            return frozenset()
        try:
            jobs = _decoded((await self._list(JOBS)).items, _Job)
        except ApiError as problem:
            _log.warning("Jobs cannot be listed, groups of ended Jobs count as incomplete", problem)
            return frozenset()
        return frozenset(job.metadata.uid for job in jobs if any(map(_is_success, job.status.conditions or ())))

    async def _served(self) -> list[ResourceKind]:
        """Return the kinds that the API server serves, each in its newest version: each version has all objects."""
        versions = list(dict.fromkeys((kind.group, kind.version) for kind in self._kinds))
        plurals = dict(zip(versions, await asyncio.gather(*map(self._plurals, versions)), strict=True))
        served: dict[tuple[str, str], ResourceKind] = {}
        for kind in self._kinds:
            if kind.plural in plurals[kind.group, kind.version]:
                served.setdefault((kind.group, kind.plural), kind)
        return list(served.values())

    async def _plurals(self, version: tuple[str, str]) -> set[str]:
        """Return the resources of a group version by the API server's discovery, which every user may read."""
        try:
            body = await self._connection.request("GET", collection(ResourceKind(*version, "", "")).rstrip("/"))
        except ApiError as problem:
            if problem.status in _NOT_SERVED:
                return set()
            raise
        return {resource.name for resource in msgspec.json.decode(body, type=_Resources).resources}

    async def _list(self, kind: ResourceKind) -> _List:
        """List all objects of a kind, or those of the namespace if that is forbidden."""
        problem = ""
        for namespace in dict.fromkeys(("", self._namespace if kind.namespaced else "")):
            try:
                found = await self._client.list(kind, namespace, field_selector=_NOT_FAILED if kind is PODS else "")
            except ApiError as error:
                if error.status != _FORBIDDEN:
                    raise
                problem = str(error)
            else:
                return _List(found.items, namespace)
        return _List((), problem=problem)


class _List(NamedTuple):
    """Result of one list call."""

    items: Sequence[msgspec.Raw]
    namespace: str = ""
    """The namespace if only this one could be listed."""
    problem: str = ""
    """Response of the API server if the list is forbidden."""


class _Condition(msgspec.Struct):
    type: str
    status: str
    reason: str = ""


class _JobStatus(msgspec.Struct):
    conditions: list[_Condition] | None = None


class _Job(msgspec.Struct):
    metadata: ObjectMeta
    status: _JobStatus = msgspec.field(default_factory=_JobStatus)


def _is_success(condition: _Condition) -> bool:
    is_met = condition.type in _JOB_SUCCESS and condition.status == "True"
    return is_met and condition.reason == _SUCCESS_POLICY


def _job_of(pod: PodObject) -> str:
    """Return the UID of the Job that controls a pod, "" if none does."""
    owners = pod.metadata.owner_references or ()
    return next(
        (
            owner.uid
            for owner in owners
            if owner.controller and owner.kind == JOBS.kind and owner.api_version == _JOB_VERSION
        ),
        "",
    )


class _Resource(msgspec.Struct):
    name: str


class _Resources(msgspec.Struct):
    resources: list[_Resource]


def _decoded(items: Iterable[msgspec.Raw], type: Any) -> list[Any]:
    """Decode objects; one that cannot be decoded is logged and left out, as by the scheduler."""
    decode, objects = msgspec.json.Decoder(type).decode, []
    for item in items:
        try:
            objects.append(decode(item))
        except UNREADABLE as problem:
            _log.warning("Skipped an object that cannot be read", problem)
    return objects


def missing_rights(kinds: Iterable[ResourceKind]) -> str:
    """Return the kinds as kubectl names them, separated by commas."""
    return ",".join(f"{kind.plural}.{kind.group}".rstrip(".") for kind in kinds)
