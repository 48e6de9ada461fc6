"""`pyscheduler nodes`: add, remove, fail, recover and drain nodes of a running cluster."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from pyscheduler.cli import options
from pyscheduler.cli.batch_command import kubeconfig_option
from pyscheduler.cli.node_selection import NodeSelection
from pyscheduler.cli.sections import FullHelpGroup, SectionedCommand, option
from pyscheduler.clock import SystemClock
from pyscheduler.kube.connection import ConnectionOptions, connect

_NODES: Final = "Nodes"


@click.group(cls=FullHelpGroup, context_settings={"show_default": True})
def nodes() -> None:
    """Add, remove, fail, recover and drain nodes of a running cluster.

    All but `drain` need the hollow nodes of `pyscheduler up`.

    \b
      pyscheduler up --nodes 3 --kubeconfig-out kubeconfig
      export KUBECONFIG=kubeconfig
      pyscheduler nodes add --count 2
      pyscheduler nodes fail node-1
      pyscheduler nodes drain --count 1 --pool node
    """


_OPTIONS: Final = (
    option("--count", section=_NODES, type=options.IntegerRange(1, 100_000), metavar="N", help="Number of nodes."),
    option("--pool", section=_NODES, metavar="NAME", help="Only nodes of this pool of `up --cluster`."),
    kubeconfig_option,
)


def _selecting(command: Callable[..., None]) -> Callable[..., None]:
    """Add names, --count, --pool and --kubeconfig; the command receives the first three as `selection`."""

    @wraps(command)
    def with_selection(names: tuple[str, ...], count: int | None, pool: str | None, **values: Any) -> None:
        if not names and count is None:
            raise click.UsageError("name the nodes, or choose some with --count")
        for option_name, value in (("--count", count), ("--pool", pool)):
            if names and value is not None:
                raise click.UsageError(f"{option_name} cannot be used together with names of nodes")
        command(selection=NodeSelection(names, count, pool), **values)

    decorated: Callable[..., None] = with_selection
    for add_option in reversed(_OPTIONS):
        decorated = add_option(decorated)
    return click.argument("names", nargs=-1, metavar="[NAME]...")(decorated)


@nodes.command(cls=SectionedCommand)
@option(
    "--count", section=_NODES, type=options.IntegerRange(1, 100_000), default=1, metavar="N", help="Number of nodes."
)
@option("--pool", section=_NODES, metavar="NAME", help="Pool of the new nodes, if there are several.")
@kubeconfig_option
def add(count: int, pool: str | None, kubeconfig: Path | None) -> None:
    """Add nodes to a pool, with its size, labels and taints.

    \b
      pyscheduler nodes add --count 10 --pool gpu
    """
    from pyscheduler.cli.node_actions import NodeActions

    _run(kubeconfig, lambda client: NodeActions(client).add(count, pool))


@nodes.command(cls=SectionedCommand)
@_selecting
def remove(selection: NodeSelection, kubeconfig: Path | None) -> None:
    """Delete nodes, the youngest first, as if their machines were gone. Drain them first to spare their pods.

    \b
      pyscheduler nodes remove --count 2 --pool gpu
    """
    from pyscheduler.cli.node_actions import NodeActions

    _run(kubeconfig, lambda client: NodeActions(client).remove(selection))


@nodes.command(cls=SectionedCommand)
@_selecting
def fail(selection: NodeSelection, kubeconfig: Path | None) -> None:
    """Stop the heartbeats of nodes, as after a power failure.

    The nodes are NotReady after 50 seconds, and their pods evicted after 5 more minutes, unless they tolerate less.

    \b
      pyscheduler nodes fail node-1
    """
    from pyscheduler.cli.node_actions import NodeActions

    _run(kubeconfig, lambda client: NodeActions(client).fail(selection))


@nodes.command(cls=SectionedCommand)
@_selecting
def recover(selection: NodeSelection, kubeconfig: Path | None) -> None:
    """Resume the heartbeats of failed nodes.

    \b
      pyscheduler nodes recover node-1
    """
    from pyscheduler.cli.node_actions import NodeActions

    _run(kubeconfig, lambda client: NodeActions(client).recover(selection))


@nodes.command(cls=SectionedCommand)
@_selecting
@option(
    "--timeout",
    section=_NODES,
    type=options.SECONDS,
    default=60.0,
    metavar="S",
    help="Seconds after which pods that a PodDisruptionBudget protects are left.",
)
@option("--force", section=_NODES, is_flag=True, help="Also evict pods that no controller replaces.")
def drain(selection: NodeSelection, kubeconfig: Path | None, timeout: float, force: bool) -> None:
    """Cordon nodes and evict their pods within PodDisruptionBudgets, on any cluster. DaemonSets' pods stay.

    \b
      pyscheduler nodes drain --count 3 --pool gpu
      kubectl uncordon gpu-3
    """
    from pyscheduler.cli.node_drain import Drain

    def build(client: Any) -> Any:
        return Drain(client, SystemClock(), timeout=timeout, force=force).run(selection)

    _run(kubeconfig, build)


def _run(kubeconfig: Path | None, work: Callable[[Any], Any]) -> None:
    """Run an action with a client, print its lines, and exit with 0. CommandProblem, ConnectionProblem, ApiError."""
    from pyscheduler.kube.object_client import ObjectClient

    async def main() -> int:
        connection = await connect(kubeconfig, ConnectionOptions(qps=-1))
        try:
            lines: Sequence[str] = await work(ObjectClient(connection))
        finally:
            await connection.close()
        for line in lines:
            print(line)
        return 0

    sys.exit(asyncio.run(main()))
