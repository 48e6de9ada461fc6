"""`pyscheduler groups`: pod groups, their members, and why they wait."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from pyscheduler.cli import batch_view
from pyscheduler.cli.batch_cluster import ReadScope
from pyscheduler.cli.batch_command import OUTPUT, CommandOutput, Flags, batch_options, show
from pyscheduler.cli.batch_reader import missing_rights
from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.cli.group_rows import STATES, GroupRow, group_rows
from pyscheduler.cli.options import API_SERVER
from pyscheduler.cli.sections import SectionedCommand, option
from pyscheduler.config.problems import did_you_mean
from pyscheduler.core.context import Context
from pyscheduler.core.pod_groups.members import SINGLE_POD

_HELP = """Show pod groups: members, state, and why a group waits. A NAME shows its pods and nodes.

\b
  pyscheduler groups                      all groups that you may list
  pyscheduler groups -n team --watch      those of a namespace, until Ctrl-C
  pyscheduler groups training             one group: its members and their nodes
  pyscheduler groups --state waiting -o json | jq -r .message

\b
States:
  Waiting      enough pods exist, and the minimum has no nodes yet
  Incomplete   some pods have nodes, fewer than the minimum
  Gated        not attempted: pods or the PodGroup are missing, or the queue is closed
  Scheduled    the minimum has nodes
  Completed    all pods have succeeded, or the Job has by its successPolicy

LINE is the position among the groups of the queue that wait: by priority, then by age. A group behind others starts
before them if it fits and they do not. The right to list pods and PodGroups of a namespace suffices for `-n`.
"""


@click.command(cls=SectionedCommand, context_settings={"show_default": True}, help=_HELP)
@click.argument("names", nargs=-1, metavar="[NAME | NAMESPACE/NAME]...")
@option("--namespace", "-n", section=API_SERVER, default="", metavar="NS", help="Only groups of this namespace.")
@option("--queue", section=OUTPUT, default="", metavar="Q", help="Only groups of this queue.")
@option(
    "--state",
    "states",
    section=OUTPUT,
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    metavar="S",
    help=f"Only groups in this state: {', '.join(STATES)}. May be repeated.",
)
@option("--pods", section=OUTPUT, is_flag=True, help="Also show pods without a group, each of which is a group.")
@batch_options
def groups(
    names: tuple[str, ...], namespace: str, queue: str, states: tuple[str, ...], pods: bool, flags: Flags
) -> None:
    cluster = flags.cluster()
    if not cluster.has_groups:
        raise CommandProblem(f"{flags.config}: no profile enables a plugin for pod groups; config/batch.yaml does")

    def selects(row: GroupRow) -> bool:
        return (
            (not namespace or row.namespace == namespace)
            and (not queue or row.queue == queue)
            and (not states or row.state in states)
            and (pods or row.api != SINGLE_POD or not _names_of(row).isdisjoint(names))
        )

    def render(context: Context, scope: ReadScope) -> CommandOutput:
        rows = [row for row in group_rows(context, scope) if selects(row)]
        if names:
            rows = _named(rows, names, namespace)
            table = batch_view.group_details(rows, time.time())
            return CommandOutput(table, _lines(rows, with_members=True), _note(scope))
        summary = f"{batch_view.group_counts(rows)}{_note(scope)}"
        return CommandOutput(batch_view.group_table(rows, time.time()), _lines(rows, with_members=False), summary)

    show(flags, namespace, cluster, render)


def _named(rows: Sequence[GroupRow], names: Sequence[str], namespace: str) -> list[GroupRow]:
    known = dict.fromkeys(name for row in rows for name in sorted(_names_of(row)))
    missing = [name for name in names if name not in known]
    if missing:
        where = f" in namespace {namespace}" if namespace else ""
        raise CommandProblem(
            f"there is no group {', '.join(map(repr, missing))}{where}; `pyscheduler groups` shows all, "
            "with --pods also pods without a group, "
            f"and --scheduler NAME those of another scheduler{did_you_mean(missing[0], known)}"
        )
    return [row for row in rows if not _names_of(row).isdisjoint(names)]


def _names_of(row: GroupRow) -> set[str]:
    """Return the names by which a user may mean a group: also that of the Job or the like that creates the pods."""
    name = row.name.rpartition("/")[2]
    return {row.name, row.key, name, f"{row.namespace}/{name}"}


def _lines(rows: Sequence[GroupRow], with_members: bool) -> dict[str, str]:
    return {f"{row.api}/{row.key}": batch_view.group_json(row, with_members) for row in rows}


def _note(scope: ReadScope) -> str:
    """Return what could not be read, "" if nothing."""
    kinds = f"; you may not list {missing_rights(scope.forbidden)}" if scope.forbidden else ""
    where = f"; only namespace {scope.namespace} is read, so positions in queues are unknown" if scope.namespace else ""
    return kinds + where
