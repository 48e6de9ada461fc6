"""`pyscheduler queues`: the tree of queues with shares, usage, and the group that is next in each."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import click
from rich.console import Group

from pyscheduler.cli import batch_view
from pyscheduler.cli.batch_cluster import ReadScope
from pyscheduler.cli.batch_command import CommandOutput, Flags, batch_options, show
from pyscheduler.cli.batch_reader import missing_rights
from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.cli.group_rows import GroupRow, group_rows
from pyscheduler.cli.queue_rows import QueueRow, queue_rows
from pyscheduler.cli.sections import SectionedCommand
from pyscheduler.config.problems import did_you_mean
from pyscheduler.core.context import Context

_HELP = """Show the tree of queues: shares, usage, and the group that is next in each and why it waits.

\b
  pyscheduler queues                 all queues
  pyscheduler queues research        a queue, those below it, and its groups in line
  pyscheduler queues --watch         until Ctrl-C
  pyscheduler queues -o json | jq -r 'select(.groups.waiting > 0) | .name'

\b
Columns, of each resource:
  DESERVED    amount in the spec; - by weight
  SHARE       amount that the queue may claim from others now, at most what it requests
  ALLOCATED   requests of the pods that have nodes
  BORROWED    amount allocated above the share, which others may reclaim
  QUOTA       limit (capability) of the queue; - for none

GROUPS includes those of the queues below. `pyscheduler queue stop NAME` closes a queue. All pods, nodes, PodGroups and
queues are read, which needs the right to list them; docs/queues.md has the rules.
"""


@click.command(cls=SectionedCommand, context_settings={"show_default": True}, help=_HELP)
@click.argument("name", required=False)
@batch_options
def queues(name: str | None, flags: Flags) -> None:
    cluster = flags.cluster()
    if not cluster.has_queues:
        raise CommandProblem(f"{flags.config}: no profile enables the plugin Queues; config/batch.yaml does")

    def render(context: Context, scope: ReadScope) -> CommandOutput:
        if not scope.is_whole:
            raise CommandProblem(_forbidden(scope))
        groups = group_rows(context, scope)
        rows = queue_rows(context, groups)
        shown = rows if name is None else subtree(rows, name)
        table = batch_view.queue_table(shown)
        lines = {row.name: batch_view.queue_json(row) for row in shown}
        if name is None:
            return CommandOutput(table, lines)
        waiting = _in_line(groups, {row.name for row in shown})
        return CommandOutput(
            Group(table, "", batch_view.group_table(waiting, time.time())) if waiting else table, lines
        )

    show(flags, "", cluster, render)


def subtree(rows: Sequence[QueueRow], name: str) -> list[QueueRow]:
    """Return a queue and those below it. CommandProblem if there is none of this name."""
    names = {name}
    for row in rows:  # each after its parent
        if row.parent in names:
            names.add(row.name)
    found = [row for row in rows if row.name in names]
    if not found:
        hint = did_you_mean(name, [row.name for row in rows])
        raise CommandProblem(f"there is no queue {name!r} among {len(rows)}; `pyscheduler queues` shows all{hint}")
    return found


def _in_line(groups: Iterable[GroupRow], queues: set[str]) -> list[GroupRow]:
    waiting = [group for group in groups if group.queue in queues and group.position]
    return sorted(waiting, key=lambda group: (group.queue, group.position or 0))


def _forbidden(scope: ReadScope) -> str:
    resources = missing_rights(scope.forbidden) or "pods"
    return (
        f"shares need all objects, and you may not list {resources}; an administrator can grant it:\n"
        f"kubectl create clusterrole queue-viewer --verb=list --resource={resources}\n"
        "kubectl create clusterrolebinding queue-viewer --clusterrole=queue-viewer --user=YOU"
    )
