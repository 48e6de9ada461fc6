"""`up --watch`: a live table of nodes and pods on a terminal, elsewhere a line for each change."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pyscheduler.api.counts import counted
from pyscheduler.api.quantity import QuantityError
from pyscheduler.api.resources import CPU, MEMORY, PODS, amounts
from pyscheduler.cli.progress import FINAL, current_progress, listed, pending_reason, pod_state
from pyscheduler.clock import Clock
from pyscheduler.embedded import Api
from pyscheduler.embedded.objects import Json, condition

POLL_SECONDS: Final = 0.25
MAX_SHARE: Final = 0.1
"""Share of the time that drawing may take: tables of large clusters are drawn less often."""
_UNSCHEDULABLE_SHOWN: Final = 3
_STYLES: Final[Mapping[str, str]] = {"Ready": "green", "NotReady": "red", "SchedulingDisabled": "yellow"}


class NodeLine(NamedTuple):
    """Line of the table for one node."""

    name: str
    status: str
    cpu: str
    memory: str
    pods: str
    phases: str


async def watch_cluster(
    console: Console, api: Api, clock: Clock, is_over: Callable[[], bool], is_complete: Callable[[], bool] | None = None
) -> None:
    """Show the cluster until `is_over`, or after a change `is_complete`; redraw after changes only."""
    complete = is_complete or (lambda: False)
    if console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:

            def draw() -> bool:
                live.update(render(api, console.height), refresh=True)
                return complete()

            await after_changes(api, clock, draw, is_over)
        return
    printed: dict[str, str] = {}

    def print_changes() -> bool:
        _print_changes(api, printed)
        return complete()

    await after_changes(api, clock, print_changes, is_over)


async def after_changes(api: Api, clock: Clock, draw: Callable[[], bool], is_over: Callable[[], bool]) -> None:
    """Call `draw` after changes of objects, until it returns True or `is_over`; a slow one is called less often.

    It reads all pods on the loop that schedules them, so its share of the time is limited.
    """
    drawn = -1
    while True:
        over, pause = is_over(), POLL_SECONDS
        if api.state.store.revision != drawn:
            drawn, began = api.state.store.revision, clock.now()
            over = draw() or over
            pause = max(pause, (clock.now() - began) / MAX_SHARE)
        if over:
            return
        await clock.sleep(pause)


def render(api: Api, height: int) -> Group:
    """Return the table of nodes, cut to the terminal's height, the numbers of pods and why some are pending."""
    rows, progress = node_rows(api), current_progress(api)
    pending = [Text(pending_reason(pod), style="red") for pod in progress.unbound[:_UNSCHEDULABLE_SHOWN]]
    room = max(1, height - len(pending) - 7)
    table = Table("node", "status", "cpu", "memory", "pods", "phases")
    for row in rows[:room]:
        table.add_row(row.name, Text(row.status, _style(row.status)), *row[2:])
    hidden = [Text(f"... and {counted(len(rows) - room, 'more node')}")] if len(rows) > room else []
    more = len(progress.unbound) - len(pending)
    rest = [Text(f"... and {counted(more, 'more pod')} without a node", style="red")] if more else []
    return Group(table, *hidden, Text(progress.line), *pending, *rest)


def node_rows(api: Api) -> list[NodeLine]:
    """Return a row for each node, in the order of their names."""
    pods: dict[str, list[Json]] = defaultdict(list)
    for pod in listed(api, "pods"):
        pods[pod["spec"].get("nodeName", "")].append(pod)
    return [_row(node, pods.get(node["metadata"]["name"], [])) for node in listed(api, "nodes")]


def _row(node: Json, pods: list[Json]) -> NodeLine:
    running = [pod for pod in pods if pod["status"].get("phase") not in FINAL]
    total, used = amounts(node["status"].get("allocatable")), _requested(running)
    phases = ", ".join(f"{count} {state}" for state, count in sorted(Counter(map(pod_state, pods)).items()))
    return NodeLine(
        node["metadata"]["name"],
        node_status(node),
        f"{used[CPU] / 1000:g}/{total.get(CPU, 0) / 1000:g}",
        f"{used[MEMORY] / 2**30:.1f}/{total.get(MEMORY, 0) / 2**30:.1f}Gi",
        f"{len(running)}/{total.get(PODS, 0)}",
        phases or "-",
    )


def node_status(node: Json) -> str:
    """Return the STATUS column of `kubectl get nodes`."""
    ready = "Ready" if condition(node, "Ready").get("status") == "True" else "NotReady"
    return f"{ready},SchedulingDisabled" if node["spec"].get("unschedulable") else ready


def _style(status: str) -> str:
    return _STYLES[status.rpartition(",")[2]]


def _requested(pods: list[Json]) -> Counter[str]:
    total: Counter[str] = Counter()
    for pod in pods:
        for container in pod["spec"].get("containers", ()):
            try:
                total.update(amounts((container.get("resources") or {}).get("requests")))
            except QuantityError:
                continue
    return total


def _print_changes(api: Api, printed: dict[str, str]) -> None:
    current = {f"node/{node['metadata']['name']}": node_status(node) for node in listed(api, "nodes")}
    for pod in listed(api, "pods"):
        name = f"pod/{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        node = pod["spec"].get("nodeName")
        current[name] = f"{pod_state(pod)} on {node}" if node else pod_state(pod)
    for name, state in current.items():
        if printed.get(name) != state:
            print(f"{name}  {state}", flush=True)
    for name in sorted(printed.keys() - current.keys()):
        print(f"{name}  deleted", flush=True)
    printed.clear()
    printed.update(current)
