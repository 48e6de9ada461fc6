"""Column of a table, and cells that several kinds share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyscheduler.embedded.objects import dig, seconds
from pyscheduler.embedded.verbs.scale import selector_text

Obj = Mapping[str, Any]
NONE, UNKNOWN = "<none>", "<unknown>"


@dataclass(frozen=True)
class Column:
    """One column: `cell` takes the object and the time (seconds since 1970). Priority 1 is for `-o wide`."""

    name: str
    cell: Callable[[Obj, float], Any]
    type: str = "string"
    priority: int = 0
    format: str = ""

    def definition(self) -> dict[str, Any]:
        """Return the metav1.TableColumnDefinition."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.name,
            "priority": self.priority,
        }


def at(*path: str, default: Any = "") -> Callable[[Obj, float], Any]:
    """Return a cell with the value at a path."""

    def cell(obj: Obj, _now: float) -> Any:
        found = dig(obj, *path)
        return default if found is None else found

    return cell


def wide(name: str, cell: Callable[[Obj, float], Any]) -> Column:
    """Return a column that only `-o wide` shows."""
    return Column(name, cell, priority=1)


def human(span: float) -> str:
    """Format a duration in seconds as k8s.io/apimachinery's duration.HumanDuration does: 45s, 5m30s, 3h, 2d4h."""
    left = int(span)
    if left < -1:
        return "<invalid>"
    if left < 120:
        return f"{max(left, 0)}s"
    minutes, hours, days = left // 60, left // 3600, left // 86400
    if minutes < 10:
        return _two(minutes, "m", left % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return _two(days // 365, "y", days % 365, "d") if days < 2920 else f"{days // 365}y"


def _two(big: int, big_unit: str, small: int, small_unit: str) -> str:
    return f"{big}{big_unit}" + (f"{small}{small_unit}" if small else "")


def since(text: Any, now: float) -> str:
    """Return the time since a timestamp, human-readable."""
    moment = seconds(text)
    return UNKNOWN if moment is None else human(now - moment)


def age(obj: Obj, now: float) -> str:
    """Return the time since an object was created."""
    return since(dig(obj, "metadata", "creationTimestamp"), now)


def joined(items: Iterable[Any]) -> str:
    """Join items with commas."""
    return ",".join(str(item) for item in items)


def container_cells(*path: str) -> tuple[Column, Column]:
    """Return the columns CONTAINERS and IMAGES of the pod spec at `path`."""

    def names(obj: Obj, _now: float) -> str:
        return joined(c.get("name", "") for c in dig(obj, *path, "containers") or ())

    def images(obj: Obj, _now: float) -> str:
        return joined(c.get("image", "") for c in dig(obj, *path, "containers") or ())

    return wide("Containers", names), wide("Images", images)


def selector_cell(obj: Obj, _now: float) -> str:
    """Return the selector of a workload."""
    return selector_text(dig(obj, "spec", "selector")) or NONE


NAME = Column("Name", at("metadata", "name"), format="name")
AGE = Column("Age", age)
GENERIC = (NAME, AGE)
TEMPLATE_CELLS = (*container_cells("spec", "template", "spec"), wide("Selector", selector_cell))
