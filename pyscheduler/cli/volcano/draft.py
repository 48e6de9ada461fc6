"""Configuration under construction, with a row for each setting of Volcano."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

from pyscheduler.config.types import KUBE_API_VERSION, KUBE_KIND


class Result(enum.StrEnum):
    """Counterpart of a setting."""

    APPLIED = "applied"
    """The configuration has it."""
    BUILT_IN = "built in"
    """The scheduler does it without a setting."""
    DIFFERS = "differs"
    """There is a counterpart with other rules."""
    MISSING = "missing"
    """There is none."""


class Row(NamedTuple):
    """Setting of Volcano, its counterpart, and what that means."""

    setting: str
    result: Result
    meaning: str


class Draft:
    """Profile with Volcano's settings that were translated so far."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._points: dict[str, dict[str, list[dict[str, Any]]]] = {}
        self._args: dict[str, dict[str, Any]] = {}

    def add(self, setting: str, result: Result, meaning: str) -> None:
        """Add a row."""
        self.rows.append(Row(setting, result, meaning))

    def enable(self, name: str, point: str = "multiPoint", weight: int | None = None) -> None:
        """Enable a plugin; a second time has no effect."""
        enabled = self._points.setdefault(point, {}).setdefault("enabled", [])
        if all(each["name"] != name for each in enabled):
            enabled.append({"name": name} if weight is None else {"name": name, "weight": weight})

    def disable(self, name: str, point: str) -> None:
        """Disable a plugin at an extension point."""
        self._points.setdefault(point, {}).setdefault("disabled", []).append({"name": name})

    def set_args(self, name: str, args: dict[str, Any]) -> None:
        """Set the arguments of a plugin."""
        self._args[name] = args

    def configuration(self, scheduler_name: str) -> dict[str, Any]:
        """Return the KubeSchedulerConfiguration."""
        profile: dict[str, Any] = {"schedulerName": scheduler_name}
        if self._points:
            profile["plugins"] = self._points
        if self._args:
            profile["pluginConfig"] = [{"name": name, "args": args} for name, args in self._args.items()]
        return {
            "apiVersion": KUBE_API_VERSION,
            "kind": KUBE_KIND,
            # As in config/batch.yaml: the measured latency limits how many bindings are in flight, not this.
            "clientConnection": {"qps": 5000, "burst": 5000},
            "leaderElection": {"leaderElect": False, "resourceName": "pyscheduler"},
            "profiles": [profile],
        }
