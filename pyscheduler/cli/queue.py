"""`pyscheduler queue stop` and `queue resume`: close a Queue of Volcano, and open it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click
import msgspec

from pyscheduler.api import ApiError
from pyscheduler.cli import options
from pyscheduler.cli.batch_command import kubeconfig_option
from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.cli.sections import FullHelpGroup, SectionedCommand
from pyscheduler.config.problems import did_you_mean
from pyscheduler.kube.connection import Connection, ConnectionOptions, connect
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler_plugins.queues.plugin import DEFAULT_QUEUE
from pyscheduler_plugins.queues.queue import QUEUE, ROOT, QueueState

_HELP = """Stop and resume queues.

They set status.state of the Queue (scheduling.volcano.sh), which needs no controller of Volcano. For the reasons why
groups of a queue wait, see `pyscheduler queues NAME`.
"""
_MISSING: Final = 404
_FORBIDDEN: Final = 403


@click.group(cls=FullHelpGroup, context_settings={"show_default": True}, help=_HELP)
def queue() -> None:
    pass


@queue.command(cls=SectionedCommand)
@click.argument("name")
@kubeconfig_option
def stop(name: str, kubeconfig: Path | None) -> None:
    """Start no more jobs of a queue and of those below it; running pods continue.

    Pods of the queue get the reason SchedulingGated. Use `queue resume` to undo it.

    \b
      pyscheduler queue stop research
    """
    # A controller of queues replaces Closing by Closed when nothing of the queue runs.
    _run(kubeconfig, name, QueueState.CLOSING, "no job of it starts from now on, running pods continue")


@queue.command(cls=SectionedCommand)
@click.argument("name")
@kubeconfig_option
def resume(name: str, kubeconfig: Path | None) -> None:
    """Start jobs of a queue again.

    \b
      pyscheduler queue resume research
    """
    _run(kubeconfig, name, QueueState.OPEN, "its jobs start again")


def _run(kubeconfig: Path | None, name: str, state: QueueState, effect: str) -> None:
    options.logging("text", 0, quiet=True)
    options.run_async(_set_state(kubeconfig, name, state, effect))


async def _set_state(kubeconfig: Path | None, name: str, state: QueueState, effect: str) -> int:
    connection = await connect(kubeconfig, ConnectionOptions(qps=-1))
    try:
        print(await set_state(connection, name, state, effect))
    finally:
        await connection.close()
    return 0


async def set_state(connection: Connection, name: str, state: QueueState, effect: str) -> str:
    """Set the state of a queue, and return a message for the user. CommandProblem, ApiError."""
    client = ObjectClient(connection)
    current = await _read(client, name)
    before = str((current.get("status") or {}).get("state") or QueueState.OPEN)
    if (before == QueueState.OPEN) == (state is QueueState.OPEN):
        message = f"queue {name} is already {before}"
    else:
        await _write(client, name, state)
        message = f"queue {name} is {state}: {effect}"
    if state is not QueueState.OPEN:
        return message
    closed = await _closed_parent(client, current)
    return f"{message}; it stays closed until its parent {closed} is resumed" if closed else message


async def _read(client: ObjectClient, name: str) -> dict[str, Any]:
    if "/" in name:
        raise CommandProblem(
            f"{name} is the queue of an ElasticQuota, which has no state; to start no more pods, set its spec.max to 0"
        )
    try:
        return await client.get(QUEUE, "", name)
    except ApiError as problem:
        if problem.status == _FORBIDDEN:
            raise CommandProblem(f"you may not get queues.scheduling.volcano.sh: {problem}") from None
        if problem.status != _MISSING:
            raise
    raise CommandProblem(await _why_missing(client, name))


async def _why_missing(client: ObjectClient, name: str) -> str:
    try:
        listed = await client.list(QUEUE)
    except ApiError as problem:
        if problem.status == _MISSING:
            return (
                "the API server has no Queues of scheduling.volcano.sh: pyscheduler manifests crds | kubectl apply -f -"
            )
        raise
    if name == ROOT:
        return f"queue {name} is the sum of all queues and has no object; stop or resume the queues below it"
    if name == DEFAULT_QUEUE:
        return (
            f"queue {name} has no object that could have a state; create a Queue of this name first: apiVersion: "
            f"{QUEUE.group}/{QUEUE.version}, kind: Queue, metadata: {{name: {name}}}, spec: {{weight: 1}}"
        )
    hint = did_you_mean(name, [msgspec.json.decode(item)["metadata"]["name"] for item in listed.items])
    return f"there is no Queue {name!r} among {len(listed.items)}; `pyscheduler queues` shows all{hint}"


async def _write(client: ObjectClient, name: str, state: QueueState) -> None:
    change = {"status": {"state": str(state)}}
    try:
        try:
            await client.patch(QUEUE, ("", name), change, subresource="status")
        except ApiError as problem:
            if problem.status != _MISSING:
                raise
            # A CustomResourceDefinition without the status subresource.
            await client.patch(QUEUE, ("", name), change)
    except ApiError as problem:
        if problem.status != _FORBIDDEN:
            raise
        raise CommandProblem(
            f"you may not patch the status of queues.scheduling.volcano.sh: {problem}; an administrator can grant it:\n"
            "kubectl create clusterrole queue-operator --verb=get,list,patch "
            "--resource=queues.scheduling.volcano.sh,queues.scheduling.volcano.sh/status\n"
            "kubectl create clusterrolebinding queue-operator --clusterrole=queue-operator --user=YOU"
        ) from None


async def _closed_parent(client: ObjectClient, queue: dict[str, Any]) -> str:
    """Return the name of the nearest queue above that is not open, "" if all are or cannot be read."""
    seen = set[str]()
    while (parent := str((queue.get("spec") or {}).get("parent") or "")) and parent not in seen:
        seen.add(parent)
        try:
            queue = await client.get(QUEUE, "", parent)
        except ApiError:
            return ""
        if (queue.get("status") or {}).get("state") in (QueueState.CLOSING, QueueState.CLOSED):
            return parent
    return ""
