"""Tables, text and JSON of pod groups and queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table

from pyscheduler.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from pyscheduler.cli.console import escape
from pyscheduler.cli.group_rows import STATES, GroupRow, age_seconds
from pyscheduler.cli.queue_rows import QueueRow
from pyscheduler.cli.task_view import duration
from pyscheduler.core.pod_groups.members import SINGLE_POD

_API_NAMES: Final = {
    "scheduling.k8s.io": "Kubernetes",
    "scheduling.k8s.io/CompositePodGroup": "Kubernetes",
    "scheduling.volcano.sh": "Volcano",
    "scheduling.x-k8s.io": "scheduler-plugins",
    "": "annotations",
    SINGLE_POD: "pod",
}
_STYLES: Final = {
    "Waiting": "yellow",
    "Incomplete": "red",
    "Gated": "magenta",
    "Scheduled": "green",
    "Completed": "dim",
    "Closing": "yellow",
    "Closed": "yellow",
    "Invalid": "red",
    "Missing": "red",
}
_COUNTS: Final = ("PRIORITY", "PLACED", "PENDING", "NEEDED", "AGE")
_RIGHT: Final = (*_COUNTS, "DESERVED", "SHARE", "ALLOCATED", "BORROWED", "QUOTA")
_NAMES: Final = ("GROUP", "QUEUE", "RESOURCE")
"""Columns that are wrapped if there is too little room: names are never cut."""
_AMOUNTS: Final = ("deserved", "share", "allocated", "borrowed", "capability")
"""Fields of a resource that the table has, in the order of its columns."""
_UNITS: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_UNKNOWN: Final = "-"
_WIDE: Final = 150
"""Columns of a terminal from which on the last column of a table is part of it."""


# -- groups ----------------------------------------------------------------------------------------------------------


def group_table(rows: Iterable[GroupRow], now: float) -> RenderableType:
    """Return the groups as a table; `now` in seconds since the epoch."""
    columns = ("GROUP", "QUEUE", "PRIORITY", "PLACED", "PENDING", "NEEDED", "STATE", "LINE", "AGE", "API")
    cells = [
        (
            escape(row.key),
            escape(row.queue),
            _number(row.priority),
            str(row.placed + row.succeeded),
            str(row.pending + row.gated),
            _number(row.needed),
            _styled(row.state),
            f"{row.position} of {row.in_line}" if row.position else "",
            _age(row, now),
            api_name(row.api),
            escape(row.message),
        )
        for row in rows
    ]
    return _WithText((*columns, "REASON"), cells, omitted=2)


def group_details(rows: Sequence[GroupRow], now: float) -> Group:
    """Return all fields and the members of groups."""
    return Group(*(part for row in rows for part in _details(row, now)))


def _details(row: GroupRow, now: float) -> Iterator[Any]:
    fields = Table.grid(padding=(0, 2))
    yield f"[bold]{escape(row.key)}[/]"
    for name, text in _fields(row, now).items():
        if text:
            fields.add_row(f"  {name}", text)
    yield fields
    members = _table(("  POD", "ROLE", "PHASE", "NODE", "REASON"), wrapped="REASON")
    for member in row.members:
        node = escape(member.node) or _UNKNOWN
        reason = escape(member.message) if member.message != row.message else ""
        members.add_row(f"  {escape(member.name)}", escape(member.role), member.phase, node, reason)
    if row.members:
        yield members
    yield ""


def _fields(row: GroupRow, now: float) -> Mapping[str, str]:
    roles = "".join(f", {count} of role {escape(role)}" for role, count in row.needed_by_role.items())
    needed = "" if row.needed is None else f" of {row.needed} needed{roles}"
    ended = f", {row.succeeded} of them succeeded" if row.succeeded else ""
    gated = f", {row.gated} with scheduling gates" if row.gated else ""
    behind = f", behind {escape(row.ahead)}" if row.ahead else ""
    line = f", {row.position} of {row.in_line} in line{behind}" if row.position else ""
    return {
        "API": api_name(row.api),
        "Queue": f"{escape(row.queue)}{line}",
        "Priority": _number(row.priority),
        "State": _styled(row.state),
        "Pods": f"{row.placed + row.succeeded}{needed} placed{ended}, {row.pending} pending{gated}",
        "Reason": ": ".join(escape(part) for part in (row.reason, row.message) if part),
        "Age": _age(row, now),
    }


def group_counts(rows: Iterable[GroupRow]) -> str:
    """Return the number of groups in each state as a line."""
    by_state = Counter(row.state for row in rows)
    return ", ".join(f"{by_state[state]} {state.lower()}" for state in STATES if by_state[state]) or "no groups"


def group_json(row: GroupRow, with_members: bool) -> str:
    """Return a group as a line of JSON, its members only on request: a group may have thousands."""
    fields = msgspec.to_builtins(row)
    if not with_members:
        del fields["members"]
    return msgspec.json.encode(fields).decode()


def api_name(api: str) -> str:
    """Return the name of the project whose PodGroups have this API group."""
    return _API_NAMES.get(api) or escape(api)


def _age(row: GroupRow, now: float) -> str:
    age = age_seconds(row.created, now)
    return _UNKNOWN if age is None else duration(age)


# -- queues ----------------------------------------------------------------------------------------------------------


def queue_table(rows: Sequence[QueueRow]) -> RenderableType:
    """Return the queues as a tree below the first one, with one line for each resource."""
    columns = ("QUEUE", "STATE", "RESOURCE", "DESERVED", "SHARE", "ALLOCATED", "BORROWED", "QUOTA", "GROUPS", "NEXT")
    cells = []
    for row in rows:
        resources = row.resources.items()
        cells.append(
            (
                f"{'  ' * (row.depth - rows[0].depth)}{escape(row.name)}",
                _styled(row.state),
                "\n".join(map(escape, row.resources)),
                *("\n".join(_amount(name, getattr(each, field)) for name, each in resources) for field in _AMOUNTS),
                _groups(row),
                _next(row),
            )
        )
    return _WithText(columns, cells)


def queue_json(row: QueueRow) -> str:
    """Return a queue as a line of JSON."""
    return msgspec.json.encode(row).decode()


def _groups(row: QueueRow) -> str:
    counts = row.groups
    parts = {"running": counts.running, "waiting": counts.waiting, "gated": counts.gated}
    return "\n".join(f"{count} {name}" for name, count in parts.items() if count)


def _next(row: QueueRow) -> str:
    if row.next is None:
        return escape(row.problem)
    text = f"{escape(row.next.key)}: {escape(row.next.message)}"
    return f"{escape(row.problem)}\n{text}" if row.problem and row.problem not in row.next.message else text


def _amount(resource: str, amount: int | float | None) -> str:
    """Return an amount, that of bytes rounded to three digits: 2.5, 3.13Gi; `-` for none."""
    if amount is None:
        return _UNKNOWN
    if resource not in (MEMORY, EPHEMERAL_STORAGE) and not resource.startswith("hugepages-"):
        return f"{amount:.3f}".rstrip("0").rstrip(".") if resource == CPU else str(amount)
    power = 0
    while abs(amount) >= 1024 and power < len(_UNITS) - 1:
        amount, power = amount / 1024, power + 1
    return f"{amount:.4g}{_UNITS[power]}" if amount >= 1000 else f"{amount:.3g}{_UNITS[power]}"


# -- common ----------------------------------------------------------------------------------------------------------


class _WithText:
    """Table with text as its last column, which a narrow terminal prints below, with the first column.

    The last columns, `omitted` of them, are not in the table then.
    """

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[str]], omitted: int = 1) -> None:
        self._columns, self._rows, self._omitted = columns, rows, omitted

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        is_wide = options.max_width >= _WIDE
        count = len(self._columns) - (0 if is_wide else self._omitted)
        table = _table(self._columns[:count], wrapped=self._columns[-1])
        for row in self._rows:
            table.add_row(*row[:count])
        yield table
        texts = [] if is_wide else [f"{row[0].strip()}: {row[-1]}" for row in self._rows if row[-1]]
        if texts:
            yield f"\n{self._columns[-1]}"
            yield from (Padding(text, (0, 0, 0, 2)) for text in texts)


def _table(columns: Iterable[str], wrapped: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        justify: Any = "right" if column in _RIGHT else "left"
        is_name = column in _NAMES
        table.add_column(column, no_wrap=column != wrapped and not is_name, justify=justify, overflow="fold")
    return table


def _number(number: int | None) -> str:
    return _UNKNOWN if number is None else str(number)


def _styled(state: str) -> str:
    return f"[{style}]{state}[/]" if (style := _STYLES.get(state)) else state
