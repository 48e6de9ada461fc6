"""Expansion of a profile: plugins of each extension point, in order, with weights and args.

The rules are kube-scheduler's: defaults are one MultiPoint list that is merged with the user's (apis/config/v1
default_plugins.go) and expanded to the extension points of each plugin (framework/runtime expandMultiPointPlugins).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pyscheduler import intree
from pyscheduler.api import MAX_NODE_SCORE
from pyscheduler.config.decode import decode
from pyscheduler.config.discover import Catalogue, is_import_path
from pyscheduler.config.field_errors import duplicate
from pyscheduler.config.fields import fields_of
from pyscheduler.config.problems import Report
from pyscheduler.config.types import KUBE_API_VERSION, KubeSchedulerProfile, Plugins, PluginSet
from pyscheduler.core.framework.registry import POINTS, PluginRegistration

_MAX_INT64 = 2**63 - 1
_ALL = "*"
_WEIGHTED = ("score", "placementScore")
"""Extension points with weights."""
_SETS = {f.key: f.name for f in fields_of(Plugins)}


class Enabled(msgspec.Struct, frozen=True):
    """Plugin at an extension point; `weight` is 0 except at Score."""

    name: str
    weight: int = 0


class ProfileSpec(msgspec.Struct, frozen=True):
    """Expanded profile: plugins of each extension point, in order, with their args.

    `points` has an entry for each extension point, by its name in configurations (`preFilter` …). `args` holds the
    decoded Args of all plugins in `points`. `percentage_of_nodes_to_score` is the share of nodes to score in
    kube-scheduler's node order, 0 for its adaptive share; None scores all nodes in our own order.
    """

    scheduler_name: str
    points: Mapping[str, tuple[Enabled, ...]] = msgspec.field(default_factory=dict)
    args: Mapping[str, Any] = msgspec.field(default_factory=dict)
    percentage_of_nodes_to_score: int | None = None

    @property
    def plugins(self) -> tuple[str, ...]:
        """Names of all plugins of the profile, without duplicates."""
        return tuple({e.name: None for enabled in self.points.values() for e in enabled})


class _Entry(msgspec.Struct, frozen=True):
    """Enabled plugin with its YAML path."""

    plugin: PluginRegistration
    weight: int
    path: str

    @property
    def name(self) -> str:
        return self.plugin.name


def expand(
    profile: KubeSchedulerProfile, percentage: int | None, catalogue: Catalogue, report: Report, path: str
) -> ProfileSpec:
    """Return the expanded profile; errors go to `report`. `percentage` applies if the profile sets none."""
    return _Expansion(profile, catalogue, report, path).spec(percentage)


class _Expansion:
    """Expansion of one profile."""

    def __init__(self, profile: KubeSchedulerProfile, catalogue: Catalogue, report: Report, path: str) -> None:
        self._profile = profile
        self._catalogue = catalogue
        self._report = report
        self._path = path

    def spec(self, percentage: int | None) -> ProfileSpec:
        multi = self._merged()
        points = {point: self._expanded(point, multi) for point in POINTS}
        # Errors that follow from a reported one are not reported.
        if not self._report.has_problems(self._path):
            self._check(points)
        own = self._profile.percentage_of_nodes_to_score
        return ProfileSpec(
            scheduler_name=self._profile.scheduler_name or "",
            points={point: tuple(Enabled(e.name, e.weight) for e in entries) for point, entries in points.items()},
            args=self._args(e.plugin for entries in points.values() for e in entries),
            percentage_of_nodes_to_score=percentage if own is None else own,
        )

    def _merged(self) -> list[_Entry]:
        """Return the MultiPoint list: enabled defaults, overridden in place if re-enabled, then the other plugins."""
        disabled, own = self._disabled("multiPoint"), self._enabled("multiPoint")
        by_name = {e.name: e for e in own}
        merged = []
        for name, weight in intree.DEFAULT_MULTIPOINT:
            if name in self._catalogue.unimplemented or name in disabled or _ALL in disabled:
                continue
            plugin = self._catalogue.registry[name]
            merged.append(by_name.get(name) or _Entry(plugin, weight, f"{self._path}.plugins.multiPoint"))
        return merged + [e for e in own if not any(e is m for m in merged)]

    def _expanded(self, point: str, multi: list[_Entry]) -> tuple[_Entry, ...]:
        """Return the plugins of a point: explicit ones that MultiPoint has, the rest of MultiPoint, other explicit
        ones."""
        explicit = self._explicit(point)
        disabled = self._disabled(point)
        expanded = [] if _ALL in disabled else [e for e in multi if _implements(e, point) and e.name not in disabled]
        explicit_names = {e.name for e in explicit}
        both = explicit_names & {e.name for e in expanded}
        spread = self._once((e for e in expanded if e.name not in explicit_names), point)
        first = [e for e in explicit if e.name in both]
        last = [e for e in explicit if e.name not in both]
        entries = [*first, *spread, *last]
        if point == "podGroup" and not all(e.plugin.in_tree for e in entries):
            # A plugin of the user, such as PodGroups, replaces GangScheduling: a profile has one.
            entries = [e for e in entries if not e.plugin.in_tree]
        return tuple(self._with_weight(e, point) for e in entries)

    def _explicit(self, point: str) -> list[_Entry]:
        implementing = []
        for entry in self._enabled(point):
            if _implements(entry, point):
                implementing.append(entry)
            else:
                kind, points = POINTS[point].__name__, ", ".join(entry.plugin.points)
                text = f'plugin "{entry.name}" does not extend {kind} plugin; it implements {points}'
                self._report.add(entry.path, text)
        return self._once(implementing, point)

    def _once(self, entries: Iterable[_Entry], point: str) -> list[_Entry]:
        unique: dict[str, _Entry] = {}
        for entry in entries:
            if unique.setdefault(entry.name, entry) is not entry and not self._report.has_problems(entry.path):
                message = f'plugin "{entry.name}" already registered as "{POINTS[point].__name__}"'
                self._report.add(entry.path, message)
        return list(unique.values())

    def _with_weight(self, entry: _Entry, point: str) -> _Entry:
        if point not in _WEIGHTED:
            return msgspec.structs.replace(entry, weight=0)
        # The default weight is 1 for in-tree plugins; other plugins may define their own.
        default = 1 if entry.plugin.in_tree else getattr(entry.plugin.cls, "weight", 1)
        return msgspec.structs.replace(entry, weight=entry.weight or default)

    def _set(self, point: str) -> PluginSet:
        plugin_set: PluginSet = getattr(self._profile.plugins, _SETS[point])
        return plugin_set

    def _disabled(self, point: str) -> frozenset[str]:
        return frozenset(self._catalogue.name_of(ref.name) for ref in self._set(point).disabled)

    def _enabled(self, point: str) -> list[_Entry]:
        """Return the plugins that the user enables at a point; unknown ones are reported and omitted.

        Plugins that kube-scheduler runs behind alpha gates only are omitted with a warning.
        """
        entries = []
        for i, ref in enumerate(self._set(point).enabled):
            path = f"{self._path}.plugins.{point}.enabled[{i}].name"
            plugin = self._resolve(ref.name, point, path)
            if plugin is not None:
                entries.append(_Entry(plugin, ref.weight or 0, path))
        return entries

    def _resolve(self, name: str, point: str, path: str) -> PluginRegistration | None:
        if self._report.has_related_problem(path):
            return None
        if is_import_path(name):
            return self._catalogue.import_plugin(name, path, self._report)
        plugin = self._catalogue.registry.get(name)
        if name in self._catalogue.unimplemented:
            self._report.warn(f'{path}: plugin "{name}" does nothing: the feature gates that it needs are off')
        elif plugin is None:
            kind = POINTS[point].__name__ if point in POINTS else "plugin"
            unknown = f'{kind} "{name}" does not exist{self._catalogue.hint(name)}'
            self._report.add(path, self._catalogue.explain_unknown(name) or unknown)
        return plugin

    def _check(self, points: Mapping[str, tuple[_Entry, ...]]) -> None:
        name = self._profile.scheduler_name
        sorts = [e.name for e in points["queueSort"]]
        path = f"{self._path}.plugins.queueSort"
        if len(sorts) != 1:
            hint = f"; disable all but one of {', '.join(sorts)} in queueSort.disabled" if sorts else ""
            text = f'only one queue sort plugin required for profile with scheduler name "{name}", but got {len(sorts)}'
            self._report.add(path, text + hint)
        if not points["bind"]:
            text = f'at least one bind plugin is needed for profile with scheduler name "{name}"'
            self._report.add(f"{self._path}.plugins.bind", text)
        for point in _WEIGHTED:
            weights = [e.weight for e in points[point]]
            # kube-scheduler reports this text for negative weights, too.
            if min(weights, default=0) < 0 or sum(weights) * MAX_NODE_SCORE > _MAX_INT64:
                kind = POINTS[point].__name__.removesuffix("Plugin")
                self._report.add(f"{self._path}.plugins.{point}", f"total score of {kind} plugins could overflow")

    def _args(self, used: Iterable[PluginRegistration]) -> dict[str, Any]:
        """Return the args of all enabled plugins; those of other plugins are validated only."""
        configured = self._configured()
        args: dict[str, Any] = {}
        for plugin in used:
            if plugin.name not in args and plugin.name not in configured:
                path = f"{self._path}.pluginConfig[name={plugin.name}].args"
                args[plugin.name] = decode(plugin.cls.Args, {}, path, self._report)
            elif plugin.name in configured:
                args[plugin.name] = configured[plugin.name]
        return args

    def _configured(self) -> dict[str, Any]:
        configured: dict[str, Any] = {}
        for i, config in enumerate(self._profile.plugin_config):
            path = f"{self._path}.pluginConfig[{i}]"
            name = self._catalogue.name_of(config.name)
            plugin = self._catalogue.registry.get(name)
            if name in configured:
                self._report.add(path, duplicate(name))
            elif plugin is not None:
                raw = self._untyped(plugin, config.args, f"{path}.args")
                configured[name] = decode(plugin.cls.Args, raw, f"{path}.args", self._report)
            elif not self._report.has_related_problem(f"{path}.name"):
                configured[name] = None
                self._unknown_config(name, path)
        return configured

    def _unknown_config(self, name: str, path: str) -> None:
        """Warn about args of an unavailable in-tree plugin; report an error for any other unknown name."""
        if name in self._catalogue.unimplemented:
            self._report.warn(f'{path}: plugin "{name}" does nothing, its args have no effect')
        elif not self._is_reported(name):
            unknown = f'plugin "{name}" does not exist{self._catalogue.hint(name)}'
            self._report.add(f"{path}.name", self._catalogue.explain_unknown(name) or unknown)

    def _is_reported(self, name: str) -> bool:
        """Return True if an enabled import path of this class cannot be loaded, which is an error already."""
        enabled = (ref.name for point in _SETS for ref in self._set(point).enabled)
        failed = (each for each in enabled if is_import_path(each) and each not in self._catalogue.imported)
        return any(each.rpartition(":")[2] == name for each in failed)

    def _untyped(self, plugin: PluginRegistration, args: Mapping[str, Any], path: str) -> dict[str, Any]:
        """Return the args without apiVersion and kind, which are validated if present."""
        own = {f.key for f in fields_of(plugin.cls.Args)}
        kind, version = args.get("kind"), args.get("apiVersion")
        if plugin.in_tree and kind not in (None, f"{plugin.name}Args"):
            self._report.add(
                f"{path}.kind", f"args for plugin {plugin.name} were not of type {plugin.name}Args, got {kind}"
            )
        if plugin.in_tree and version not in (None, KUBE_API_VERSION):
            self._report.add(f"{path}.apiVersion", f'"{version}" is not served; write {KUBE_API_VERSION}')
        return {k: v for k, v in args.items() if k in own or k not in ("kind", "apiVersion")}


def _implements(entry: _Entry, point: str) -> bool:
    return issubclass(entry.plugin.cls, POINTS[point])
