"""Carries out what controllers decide: the only place here that writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from pyscheduler.embedded.client import ApiClient, Json, Refused
from pyscheduler.embedded.workloads.actions import Action, Create, Delete, Patch

TOGETHER = 16
"""How many creations and deletions are under way at once."""

Created = Callable[[Json], None]
Deleted = Callable[[Delete], None]


async def carry_out(
    client: ApiClient, actions: Iterable[Action], created: Created | None = None, deleted: Deleted | None = None
) -> None:
    """Creations and deletions side by side, then patches in order. Refused or OSError end it; the rest is not done."""
    changes = [action for action in actions if not isinstance(action, Patch)]

    async def change(action: Create | Delete) -> None:
        if isinstance(action, Create):
            made = await client.create(action.resource, action.obj)
            if created is not None:
                created(made)
        elif await _delete(client, action) and deleted is not None:
            deleted(action)

    for start in range(0, len(changes), TOGETHER):
        await asyncio.gather(*(change(action) for action in changes[start : start + TOGETHER]))
    for action in actions:
        if isinstance(action, Patch):
            await _patch(client, action)


async def _delete(client: ApiClient, action: Delete) -> bool:
    try:
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
