"""Text and tables of an explanation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import RenderableType
from rich.table import Table

from pyscheduler.api.counts import counted
from pyscheduler.cli.console import escape
from pyscheduler.cli.explanation import Explanation, NodeScore, RejectedNodes, State
from pyscheduler.cli.group_rows import GATED, INCOMPLETE, WAITING, GroupRow
from pyscheduler.core.pod_groups.members import SINGLE_POD

_SHOWN_NAMES: Final = 3
_SHOWN_SCORES: Final = 5


def view(found: Explanation, headline: str = "") -> Iterator[RenderableType]:
    """Yield the parts of the explanation: a headline, fields, nodes that do not fit, and scores.

    `headline` replaces the one about the present.
    """
    yield f"[bold]{escape(found.key)}[/] {escape(headline or _headline(found))}"
    fields = Table.grid(padding=(0, 2))
    for name, text in _fields(found).items():
        if text:
            fields.add_row(f"  {name}", escape(text))
    yield fields
    if found.rejected:
        yield ""
        yield _rejected(found.rejected)
    if found.feasible:
        yield ""
        yield _scores(found)


def pods_of_workload(name: str, keys: Iterable[str]) -> str:
    """Return `; there are NAMESPACE/NAME-..., ...` of the pods with names that begin with `NAME-`; "" without any."""
    found = sorted(key for key in keys if key.partition("/")[2].startswith(f"{name}-"))
    if not found:
        return ""
    more = f" and {len(found) - _SHOWN_NAMES} more" if len(found) > _SHOWN_NAMES else ""
    return f"; there {'is' if len(found) == 1 else 'are'} {', '.join(found[:_SHOWN_NAMES])}{more}"


def _headline(found: Explanation) -> str:
    fits = f"{len(found.feasible)} of {counted(found.nodes, 'node')}"
    if found.error:
        return f"cannot be evaluated: {found.error}"
    if found.state is State.ENDED:
        return f"has ended ({found.phase}) on {found.node}" if found.node else f"has ended ({found.phase})"
    if found.state is State.GATED:
        return "waits at a gate: it is not attempted"
    if found.state is State.BOUND:
        return f"is on {found.node}, {_place(found)}"
    if found.state is State.FITS and found.group is not None and found.group.state in (WAITING, INCOMPLETE, GATED):
        owner = "queue" if found.group.api == SINGLE_POD else "group"
        return f"waits for its {owner}; by itself it fits {fits} now"
    if found.state is State.FITS:
        return f"has no node yet, and fits {fits} now"
    return f"is pending: it fits none of {counted(found.nodes, 'node')}"


def _place(found: Explanation) -> str:
    """Return how its node compares with the others now."""
    if found.gate:
        return "and would wait at a gate now"
    own = next((each for each in found.feasible if each.node == found.node), None)
    if own is None:
        return "which would not fit it now"
    fitting = counted(len(found.feasible), "node")
    if len(found.feasible) == 1:
        return "the only node that fits it now"
    if own.rank == 1:
        return f"the best of {fitting} that fit it now"
    return f"number {own.rank} of {fitting} that fit it now: the cluster has changed since, or equal nodes were drawn"


def _fields(found: Explanation) -> dict[str, str]:
    gate, last, preemption = found.gate, found.last_attempt, found.preemption
    victims = ", ".join(preemption.get("victims", ()))
    return {
        "Scheduler": found.scheduler,
        "Priority": str(found.priority),
        "Gate": f"{gate['plugin']}: {', '.join(gate['reasons'])}" if gate else "",
        "Last attempt": ": ".join(filter(None, (last.get("reason"), last.get("message")))) if not found.node else "",
        **(_group_fields(found.group) if found.group is not None else {}),
        "Preemption": f"would evict {victims} from {preemption['nominatedNode']}" if victims else _none(preemption),
    }


def _group_fields(group: GroupRow) -> dict[str, str]:
    line = f", {group.position} of {group.in_line} in line" if group.position else ""
    if group.api == SINGLE_POD:
        return {"Queue": f"{group.queue}{line}"}
    needed = "" if group.needed is None else f" of {group.needed} needed"
    return {
        "Group": f"{group.key}: {group.state.lower()}, {group.placed}{needed} have nodes",
        "Queue": f"{group.queue}{line}",
        "Group waits": group.message,
    }


def _none(preemption: Mapping[str, Any]) -> str:
    """Return why preemption finds nothing; "" if it was not tried."""
    return str(preemption.get("message", "")).removeprefix("preemption: ")


def _rejected(groups: Sequence[RejectedNodes]) -> Table:
    table = _table("NODES", "WHY NOT", "WHAT WOULD HELP")
    for each in groups:
        for i, rejection in enumerate(each.rejections):
            reasons = f"{', '.join(rejection.reasons)} ({rejection.plugin})"
            table.add_row(escape(_names(each.nodes)) if i == 0 else "", escape(reasons), escape(rejection.hint))
    return table


def _names(nodes: Sequence[str]) -> str:
    if len(nodes) <= _SHOWN_NAMES:
        return ", ".join(nodes)
    return f"{', '.join(nodes[:_SHOWN_NAMES])} and {len(nodes) - _SHOWN_NAMES} more"


def _scores(found: Explanation) -> Table:
    """Return the scores of the best nodes and of the pod's own; plugins with equal scores everywhere are left out."""
    best = [*found.feasible[:_SHOWN_SCORES]]
    best += [each for each in found.feasible[_SHOWN_SCORES:] if each.node == found.node]
    plugins = [name for name in best[0].scores if len({each.scores[name] for each in found.feasible}) > 1]
    table = _table("NODE", "TOTAL", *plugins)
    for each in best:
        table.add_row(*_row(each, plugins, is_own=each.node == found.node))
    return table


def _row(each: NodeScore, plugins: Sequence[str], is_own: bool) -> Sequence[str]:
    name = f"[green]{escape(each.node)}[/]" if is_own else escape(each.node)
    return name, str(each.total), *(str(each.scores[plugin]) for plugin in plugins)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
