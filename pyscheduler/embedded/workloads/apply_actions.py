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

    ApiError aborts; the remaining actions are not performed.
    """
    actions = list(actions)
    changes = [action for action in actions if isinstance(action, Create | Delete)]
    records: list[RecordAction] = []

    async def change(action: Create | Delete) -> None:
        if isinstance(action, Create):
            obj = await _create(client, action)
            if obj is not None:
                records.extend(_event_records(action.event_object, "SuccessfulCreate", "Created", obj))
                if created is not None:
                    created(obj)
        elif await _delete(client, action):
            records.extend(
                _event_records(
                    action.event_object, "SuccessfulDelete", "Deleted", {"metadata": {"name": action.key[1]}}
                )
            )
            if deleted is not None:
                deleted(action)

    for start in range(0, len(changes), MAX_CONCURRENT_WRITES):
        await asyncio.gather(*(change(action) for action in changes[start : start + MAX_CONCURRENT_WRITES]))
    for action in actions:
        if isinstance(action, Patch):
            await _patch(client, action)
    records += [action for action in actions if isinstance(action, RecordAction)]
    if recorder is not None:
        for record in records:
            await recorder.record(record)


def _event_records(event_object: Json | None, reason: str, verb: str, obj: Json) -> list[RecordAction]:
    if event_object is None:
        return []
    name, kind = obj["metadata"]["name"], event_object.get("kind")
    if kind == "StatefulSet":
        owner = event_object["metadata"]["name"]
        text = f"{verb.removesuffix('d').lower()} Pod {name} in StatefulSet {owner} successful"
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
