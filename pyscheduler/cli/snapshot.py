"""`pyscheduler snapshot`: all objects of a running cluster as a file that `up` loads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from pyscheduler.api import ApiError, ResourceKind
from pyscheduler.api.counts import counted
from pyscheduler.cli import options
from pyscheduler.cli.batch_command import OUTPUT, kubeconfig_option
from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.cli.sections import SectionedCommand, option
from pyscheduler.embedded.snapshot import TEMPORARY, encode_list
from pyscheduler.kube.connection import Connection, ConnectionOptions, connect
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.private_file import write_private

_FORBIDDEN: Final = (403, 404, 405)
_SECRET: Final = "Secret"


class _ResourceEntry(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool
    verbs: list[str]


class _ResourceList(msgspec.Struct):
    resources: list[_ResourceEntry] = msgspec.field(default_factory=list)


class _GroupVersion(msgspec.Struct, rename="camel"):
    version: str


class _Group(msgspec.Struct, rename="camel"):
    name: str
    preferred_version: _GroupVersion


class _GroupList(msgspec.Struct):
    groups: list[_Group]


@click.command(cls=SectionedCommand)
@click.argument("file", type=options.WRITABLE)
@kubeconfig_option
@option("--secrets", section=OUTPUT, is_flag=True, help="Include Secrets.")
def snapshot(file: Path, kubeconfig: Path | None, secrets: bool) -> None:
    """Write all objects of a cluster to FILE, for `up --restore` and `up --load`.

    Events, Leases and Secrets are left out, and so are kinds that you may not list.

    \b
    Keep the state of a running `pyscheduler up`:
      pyscheduler snapshot state.json --kubeconfig kubeconfig
      pyscheduler up --restore state.json

    \b
    Try another scheduler configuration on the nodes and pods of a real cluster:
      pyscheduler snapshot cluster.json --kubeconfig ~/.kube/config
      pyscheduler up --load cluster.json --config scheduler.yaml
    """
    left_out = TEMPORARY if secrets else (*TEMPORARY, _SECRET)
    count, missing = asyncio.run(_write(file, kubeconfig, left_out))
    print(f"{file}: {counted(count, 'object')}")
    if missing:
        print(f"Left out, because you may not list them: {', '.join(missing)}")


async def _write(file: Path, kubeconfig: Path | None, left_out: tuple[str, ...]) -> tuple[int, list[str]]:
    connection = await connect(kubeconfig, ConnectionOptions(qps=-1))
    try:
        objects, missing = await _objects(connection, left_out)
    finally:
        await connection.close()
    try:
        write_private(file, encode_list(objects))
    except OSError as error:
        raise CommandProblem(f"{file}: cannot be written: {error.strerror or error}") from None
    return len(objects), missing


async def _objects(connection: Connection, left_out: tuple[str, ...]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the objects of all kinds that can be listed, and the kinds that may not be."""
    client = ObjectClient(connection)
    objects: list[dict[str, Any]] = []
    missing: list[str] = []
    for kind in await _kinds(connection):
        if kind.kind in left_out:
            continue
        try:
            listing = await client.list(kind)
        except ApiError as error:
            if error.status not in _FORBIDDEN:
                raise
            missing.append(kind.plural)
            continue
        version = f"{kind.group}/{kind.version}" if kind.group else kind.version
        head = {"apiVersion": version, "kind": kind.kind}  # which the items of a list need not have
        objects += ({**head, **msgspec.json.decode(item)} for item in listing.items)
    return objects, missing


async def _kinds(connection: Connection) -> list[ResourceKind]:
    """Return all kinds that can be listed, each in the preferred version of its group."""
    groups = msgspec.json.decode(await connection.request("GET", "/apis"), type=_GroupList).groups
    found = await _kinds_of(connection, "", "v1")
    for group in groups:
        try:
            found += await _kinds_of(connection, group.name, group.preferred_version.version)
        except ApiError as error:  # of an aggregated server that does not respond
            if error.status < 500:
                raise
    return found


async def _kinds_of(connection: Connection, group: str, version: str) -> list[ResourceKind]:
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    listed = msgspec.json.decode(await connection.request("GET", path), type=_ResourceList).resources
    return list(_listable(listed, group, version))


def _listable(entries: list[_ResourceEntry], group: str, version: str) -> Iterator[ResourceKind]:
    for entry in entries:
        if "/" not in entry.name and {"list", "create"} <= set(entry.verbs):
            yield ResourceKind(group, version, entry.name, entry.kind, namespaced=entry.namespaced)
