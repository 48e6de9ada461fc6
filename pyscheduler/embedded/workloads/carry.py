"""Carries out what controllers decide: the only place here that writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from pyscheduler.embedded.client import ApiClient, Json, Refused
from pyscheduler.embedded.workloads.actions import Action, Create, Delete, Patch, Record
from pyscheduler.embedded.workloads.recorder import Recorder

TOGETHER = 16
"""How many creations and deletions are under way at once."""

Created = Callable[[Json], None]
Deleted = Callable[[Delete], None]


async def carry_out(
    client: ApiClient,
    actions: Iterable[Action],
    created: Created | None = None,
    deleted: Deleted | None = None,
    recorder: Recorder | None = None,
) -> None:
    """Creations and deletions side by side, then patches in order, then Events; those only with a `recorder`.

    Refused or OSError end it; the rest is not done.
    """
    actions = list(actions)
    changes = [action for action in actions if isinstance(action, Create | Delete)]
    records: list[Record] = []

    async def change(action: Create | Delete) -> None:
        if isinstance(action, Create):
            made = await _create(client, action)
            if made is not None:
                records.extend(_told(action.teller, "SuccessfulCreate", "Created", made))
                if created is not None:
                    created(made)
        elif await _delete(client, action):
            records.extend(_told(action.teller, "SuccessfulDelete", "Deleted", {"metadata": {"name": action.key[1]}}))
            if deleted is not None:
                deleted(action)

    for start in range(0, len(changes), TOGETHER):
        await asyncio.gather(*(change(action) for action in changes[start : start + TOGETHER]))
    for action in actions:
        if isinstance(action, Patch):
            await _patch(client, action)
    records += [action for action in actions if isinstance(action, Record)]
    if recorder is not None:
        for record in records:
            await recorder.record(record)


def _told(teller: Json | None, reason: str, verb: str, obj: Json) -> list[Record]:
    if teller is None:
        return []
    what = "job " if teller.get("kind") == "CronJob" else "pod: "
    return [Record(teller, reason, f"{verb} {what}{obj['metadata']['name']}")]


async def _create(client: ApiClient, action: Create) -> Json | None:
    try:
        return await client.create(action.resource, action.obj)
    except Refused as refusal:
        if action.unless_there and refusal.conflict:
            return None
        raise


async def _delete(client: ApiClient, action: Delete) -> bool:
    try:
        if action.before is not None:
            await _patch(client, action.before)
        await client.delete(action.resource, action.key, uid=action.uid, grace_seconds=action.grace_seconds)
    except Refused as refusal:
        if refusal.gone or refusal.conflict:
            return False  # it is gone, or another one has its name
        raise
    return True


async def _patch(client: ApiClient, action: Patch) -> None:
    try:
        await client.patch(action.resource, action.key, action.patch, kind=action.kind, subresource=action.subresource)
    except Refused as refusal:
        if not refusal.gone:
            raise
