"""Performs the actions of controllers: the only writer in this package."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from pyscheduler.api import ApiError
from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.workloads.actions import Action, Create, Delete, Patch, RecordAction
from pyscheduler.embedded.workloads.recorder import EventRecorder
from pyscheduler.kube.errors import is_conflict, is_not_found
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.paths import PODS

MAX_CONCURRENT_WRITES = 16
"""Concurrent creations and deletions."""

Created = Callable[[Json], None]
Deleted = Callable[[Delete], None]


async def apply_actions(
    client: ObjectClient,
    actions: Iterable[Action],
    created: Created | None = None,
    deleted: Deleted | None = None,
    recorder: EventRecorder | None = None,
) -> None:
    """Perform creations and deletions concurrently, then patches in order; record Events if there is a `recorder`.

    The ApiError of a rejected creation that has a `failure_object` is raised last. Any other ApiError is raised once
    the writes that run beside it have ended; the remaining actions are not performed.
    """
    actions, writes = list(actions), PlanWrites(client, created, deleted)
    await writes.change(actions)
    if (rejection := await writes.finish(actions, recorder)) is not None:
        raise rejection


class PlanWrites:
    """The writes of one plan: first what it creates and deletes, then its patches and Events."""

    def __init__(self, client: ObjectClient, created: Created | None = None, deleted: Deleted | None = None) -> None:
        self._client, self._created, self._deleted = client, created, deleted
        self._records: list[RecordAction] = []
        self.rejection: ApiError | None = None
        """Error of a creation after which the plan continues."""
        self._error: ApiError | None = None
        """Error that aborts the plan."""
        self.missing = 0
        """Objects with a `failure_object` that were not created."""

    async def change(self, actions: Iterable[Action]) -> None:
        """Perform creations and deletions in groups; the groups after a rejected creation create nothing."""
        changes = [action for action in actions if isinstance(action, Create | Delete)]
        for start in range(0, len(changes), MAX_CONCURRENT_WRITES):
            group = changes[start : start + MAX_CONCURRENT_WRITES]
            if self.rejection is not None:
                self.missing += sum(isinstance(action, Create) for action in group)
                group = [action for action in group if isinstance(action, Delete)]
            await asyncio.gather(*(self._change(action) for action in group))
            if self._error is not None:
                return

    async def finish(self, actions: Iterable[Action], recorder: EventRecorder | None) -> ApiError | None:
        """Perform patches and record Events; return the first error of a creation that has a `failure_object`."""
        if self._error is None:
            actions = list(actions)
            for action in actions:
                if isinstance(action, Patch):
                    await _patch(self._client, action)
            self._records += [action for action in actions if isinstance(action, RecordAction)]
        if recorder is not None:
            for record in self._records:
                await recorder.record(record)
        if self._error is not None:
            raise self._error
        return self.rejection

    async def _change(self, action: Create | Delete) -> None:
        if isinstance(action, Delete):
            try:
                await self._delete(action)
            except ApiError as error:
                self._error = self._error or error
            return
        for each in (*action.before, action):
            try:
                await self._create(each)
            except ApiError as error:
                self._reject(action, each, error)
                return

    def _reject(self, action: Create, rejected: Create, error: ApiError) -> None:
        """Store the error of a creation, or of one before it."""
        if self.rejection is None and self._error is None:
            self._records += _failure_records(action, rejected, error)
        if action.failure_object is not None:
            self.rejection = self.rejection or error
            self.missing += 1
        else:
            self._error = self._error or error

    async def _create(self, action: Create) -> None:
        obj = await _create(self._client, action)
        if obj is not None:
            self._records += _event_records(action.event_object, "SuccessfulCreate", "Created", obj)
            if self._created is not None:
                self._created(obj)

    async def _delete(self, action: Delete) -> None:
        if await _delete(self._client, action):
            name = {"metadata": {"name": action.key[1]}}
            self._records += _event_records(action.event_object, "SuccessfulDelete", "Deleted", name)
            if self._deleted is not None:
                self._deleted(action)


def _failure_records(action: Create, rejected: Create, error: ApiError) -> list[RecordAction]:
    owner = action.failure_object or action.event_object
    if owner is None:
        return []
    text = f"Error creating: {error}"
    if owner.get("kind") == "CronJob":
        text = f"Error creating job: {error}"
    if owner.get("kind") == "StatefulSet":
        name, rejected_name = owner["metadata"]["name"], rejected.obj["metadata"]["name"]
        claim = "" if rejected.resource == PODS else f"Claim {rejected_name} for "
        text = (
            f"Create {claim}Pod {name}-{rejected_name.rpartition('-')[2]} in StatefulSet {name} failed error: {error}"
        )
    return [RecordAction(owner, "FailedCreate", text, "Warning")]


def _event_records(event_object: Json | None, reason: str, verb: str, obj: Json) -> list[RecordAction]:
    if event_object is None:
        return []
    name, kind = obj["metadata"]["name"], event_object.get("kind")
    if kind == "StatefulSet":
        owner = event_object["metadata"]["name"]
        text = f"{verb.removesuffix('d')} Pod {name} in StatefulSet {owner} successful"
        return [RecordAction(event_object, reason, text)]
    return [RecordAction(event_object, reason, f"{verb} {'job ' if kind == 'CronJob' else 'pod: '}{name}")]


async def _create(client: ObjectClient, action: Create) -> Json | None:
    try:
        return await client.create(action.resource, action.obj)
    except ApiError as error:
        if action.ignore_already_exists and is_conflict(error):
            return None
        raise


async def _delete(client: ObjectClient, action: Delete) -> bool:
    try:
        if action.pre_patch is not None:
            await _patch(client, action.pre_patch)
        await client.delete(action.resource, action.key, action.uid, action.grace_seconds)
    except ApiError as error:
        if is_not_found(error) or is_conflict(error):
            return False  # it is deleted, or another object has its name
        raise
    return True


async def _patch(client: ObjectClient, action: Patch) -> None:
    try:
        await client.patch(action.resource, action.key, action.patch, action.type, action.subresource)
    except ApiError as error:
        if not is_not_found(error):
            raise
