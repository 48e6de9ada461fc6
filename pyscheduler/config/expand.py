"""From what a profile says to what runs: the plugins of each extension point, in order, with weights and args.

The rules are kube-scheduler's: defaults are one MultiPoint list, merged with the user's (apis/config/v1
default_plugins.go), then spread over the points that each plugin serves (framework/runtime expandMultiPointPlugins).
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
from pyscheduler.config.types import KUBE_API_VERSION, Plugins, PluginSet, Profile
from pyscheduler.core.framework.registry import POINTS, PluginRegistration

_MAX_INT64 = 2**63 - 1
_ALL = "*"
_PLACEMENT_POINTS = {
    "placementGenerate": ("PlacementGeneratePlugin", ("TopologyPlacementGenerator",)),
    "placementScore": ("PlacementScorePlugin", ("NodeResourcesFit", "PodGroupPodsCount")),
}
"""What kube-scheduler calls a plugin of these points, and which plugins serve them; behind alpha feature gates only."""
_SETS = {f.key: f.name for f in fields_of(Plugins)}


class Enabled(msgspec.Struct, frozen=True):
    """A plugin at an extension point; `weight` is 0 everywhere but at Score."""

    name: str
    weight: int = 0


class ProfileSpec(msgspec.Struct, frozen=True):
    """A profile, decided: which plugins run at each point, in order, and what each is constructed with.

    `points` has every point under the name that configurations use (`preFilter` …), those without plugins as ().
    `args` has the decoded Args of every plugin in `points`. `percentage_of_nodes_to_score` is
    how big a share kube-scheduler's order looks at, 0 adapting it; None looks at every node in our own order.
    """

    scheduler_name: str
    points: Mapping[str, tuple[Enabled, ...]] = msgspec.field(default_factory=dict)
    args: Mapping[str, Any] = msgspec.field(default_factory=dict)
    percentage_of_nodes_to_score: int | None = None

    @property
    def plugins(self) -> tuple[str, ...]:
        """The names of all plugins of the profile, each once."""
        return tuple({e.name: None for enabled in self.points.values() for e in enabled})


class _Entry(msgspec.Struct, frozen=True):
    """A plugin asked for, with the place where it was."""

    plugin: PluginRegistration
    weight: int
    path: str

    @property
    def name(self) -> str:
        return self.plugin.name


def expand(profile: Profile, percentage: int | None, catalogue: Catalogue, report: Report, path: str) -> ProfileSpec:
    """The profile decided, its errors in `report`; `percentage` counts where the profile gives none."""
    return _Expansion(profile, catalogue, report, path).spec(percentage)


class _Expansion:
    """One profile on its way."""

    def __init__(self, profile: Profile, catalogue: Catalogue, report: Report, path: str) -> None:
        self._profile = profile
        self._catalogue = catalogue
        self._report = report
        self._path = path

    def spec(self, percentage: int | None) -> ProfileSpec:
        for point in _PLACEMENT_POINTS:
            self._check_placement(point)
        multi = self._merged()
        points = {point: self._expanded(point, multi) for point in POINTS}
        # A point that came out wrong because of an error told already would only be noise.
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
        """The MultiPoint list: defaults that are not disabled, replaced in place where re-enabled, then the rest."""
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
        """Explicit plugins that are in MultiPoint too come first, then MultiPoint's others, then the other explicit."""
        explicit = self._explicit(point)
        disabled = self._disabled(point)
        served = [] if _ALL in disabled else [e for e in multi if _serves(e, point) and e.name not in disabled]
        named = {e.name for e in explicit}
        both = named & {e.name for e in served}
        spread = self._once((e for e in served if e.name not in named), point)
        first = [e for e in explicit if e.name in both]
        last = [e for e in explicit if e.name not in both]
        return tuple(self._weighed(e, point) for e in (*first, *spread, *last))

    def _explicit(self, point: str) -> list[_Entry]:
        serving = []
        for entry in self._enabled(point):
            if _serves(entry, point):
                serving.append(entry)
            else:
                kind, points = POINTS[point].__name__, ", ".join(entry.plugin.points)
                self._report.add(entry.path, f'plugin "{entry.name}" does not extend {kind} plugin; it serves {points}')
        return self._once(serving, point)

    def _once(self, entries: Iterable[_Entry], point: str) -> list[_Entry]:
        unique: dict[str, _Entry] = {}
        for entry in entries:
            if unique.setdefault(entry.name, entry) is not entry and not self._report.has_problems(entry.path):
                message = f'plugin "{entry.name}" already registered as "{POINTS[point].__name__}"'
                self._report.add(entry.path, message)
        return list(unique.values())

    def _weighed(self, entry: _Entry, point: str) -> _Entry:
        if point != "score":
            return msgspec.structs.replace(entry, weight=0)
        # Kube-scheduler's plugins weigh 1 where nothing is said; only others can bring a weight of their own.
        unsaid = 1 if entry.plugin.in_tree else getattr(entry.plugin.cls, "weight", 1)
        return msgspec.structs.replace(entry, weight=entry.weight or unsaid)

    def _set(self, point: str) -> PluginSet:
        plugin_set: PluginSet = getattr(self._profile.plugins, _SETS[point])
        return plugin_set

    def _disabled(self, point: str) -> frozenset[str]:
        return frozenset(self._catalogue.name_of(ref.name) for ref in self._set(point).disabled)

    def _enabled(self, point: str) -> list[_Entry]:
        """The plugins that the user enables at a point; those that do not exist are reported and left out.

        So are those that kube-scheduler runs behind alpha gates only: it takes such a configuration, too.
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
            unheard_of = f'{kind} "{name}" does not exist{self._catalogue.hint(name)}'
            self._report.add(path, self._catalogue.explain_unknown(name) or unheard_of)
        return plugin

    def _check_placement(self, point: str) -> None:
        """Whether kube-scheduler would take what a profile enables at a point that nothing here runs."""
        kind, serving = _PLACEMENT_POINTS[point]
        before: set[str] = set()
        for i, ref in enumerate(self._set(point).enabled):
            path = f"{self._path}.plugins.{point}.enabled[{i}].name"
            name = self._catalogue.name_of(ref.name)
            if self._report.has_related_problem(path):
                continue
            if name in before:
                self._report.add(path, f'plugin "{name}" already registered as "{kind}"')
            elif name in serving:
                self._report.warn(f'{path}: plugin "{name}" does nothing: the feature gates that it needs are off')
            elif name in self._catalogue.registry or name in self._catalogue.unimplemented:
                self._report.add(path, f'plugin "{name}" does not extend {kind} plugin')
            else:
                self._report.add(path, f'{kind} "{name}" does not exist{self._catalogue.hint(name)}')
            before.add(name)

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
        weights = [e.weight for e in points["score"]]
        # A negative one lets kube-scheduler's own sum overflow.
        if min(weights, default=0) < 0 or sum(weights) * MAX_NODE_SCORE > _MAX_INT64:
            self._report.add(f"{self._path}.plugins.score", "total score of Score plugins could overflow")

    def _args(self, used: Iterable[PluginRegistration]) -> dict[str, Any]:
        """The args of every plugin in use; those of plugins that are not in use are checked all the same."""
        given = self._configured()
        args: dict[str, Any] = {}
        for plugin in used:
            if plugin.name not in args and plugin.name not in given:
                path = f"{self._path}.pluginConfig[name={plugin.name}].args"
                args[plugin.name] = decode(plugin.cls.Args, {}, path, self._report)
            elif plugin.name in given:
                args[plugin.name] = given[plugin.name]
        return args

    def _configured(self) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for i, config in enumerate(self._profile.plugin_config):
            path = f"{self._path}.pluginConfig[{i}]"
            name = self._catalogue.name_of(config.name)
            plugin = self._catalogue.registry.get(name)
            if name in given:
                self._report.add(path, duplicate(name))
            elif plugin is not None:
                raw = self._untyped(plugin, config.args, f"{path}.args")
                given[name] = decode(plugin.cls.Args, raw, f"{path}.args", self._report)
            elif not self._report.has_related_problem(f"{path}.name"):
                given[name] = None
                self._unknown_config(name, path)
        return given

    def _unknown_config(self, name: str, path: str) -> None:
        """Args of a plugin that is not there yet do no harm; any other unknown name is a mistake worth stopping for."""
        if name in self._catalogue.unimplemented:
            self._report.warn(f'{path}: plugin "{name}" does nothing, its args have no effect')
        else:
            unheard_of = f'plugin "{name}" does not exist{self._catalogue.hint(name)}'
            self._report.add(f"{path}.name", self._catalogue.explain_unknown(name) or unheard_of)

    def _untyped(self, plugin: PluginRegistration, args: Mapping[str, Any], path: str) -> dict[str, Any]:
        """The args without apiVersion and kind, which Kubernetes writes into them; they must be right if given."""
        own = {f.key for f in fields_of(plugin.cls.Args)}
        kind, version = args.get("kind"), args.get("apiVersion")
        if plugin.in_tree and kind not in (None, f"{plugin.name}Args"):
            self._report.add(
                f"{path}.kind", f"args for plugin {plugin.name} were not of type {plugin.name}Args, got {kind}"
            )
        if plugin.in_tree and version not in (None, KUBE_API_VERSION):
            self._report.add(f"{path}.apiVersion", f'"{version}" is not served; write {KUBE_API_VERSION}')
        return {k: v for k, v in args.items() if k in own or k not in ("kind", "apiVersion")}


def _serves(entry: _Entry, point: str) -> bool:
    return issubclass(entry.plugin.cls, POINTS[point])
