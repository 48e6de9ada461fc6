"""Registered plugins: the class of each name, its distribution and its extension points.

Registering a plugin only makes its name available; a profile enables it (kube-scheduler's framework/runtime Registry).
Callers that import modules fill the registry, so that this module does not have to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import msgspec

from pyscheduler.api import (
    BindPlugin,
    FilterPlugin,
    PermitPlugin,
    PlacementFeasiblePlugin,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    Plugin,
    PodGroupPlugin,
    PodGroupPostFilterPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    QuotaPlugin,
    ReservePlugin,
    ScorePlugin,
)

POINTS: Mapping[str, type[Plugin]] = MappingProxyType(
    {
        "preEnqueue": PreEnqueuePlugin,
        "queueSort": QueueSortPlugin,
        "podGroup": PodGroupPlugin,
        "quota": QuotaPlugin,
        "preFilter": PreFilterPlugin,
        "filter": FilterPlugin,
        "postFilter": PostFilterPlugin,
        "placementGenerate": PlacementGeneratePlugin,
        "placementFeasible": PlacementFeasiblePlugin,
        "placementScore": PlacementScorePlugin,
        "podGroupPostFilter": PodGroupPostFilterPlugin,
        "preScore": PreScorePlugin,
        "score": ScorePlugin,
        "reserve": ReservePlugin,
        "permit": PermitPlugin,
        "preBind": PreBindPlugin,
        "bind": BindPlugin,
        "postBind": PostBindPlugin,
    }
)
"""The extension points in the order in which a pod reaches them, with their base classes.

Keys are spelled as in configurations: `preFilter`, not `PreFilter`.
"""


def points_of(cls: type) -> tuple[str, ...]:
    """Return the extension points that a plugin class implements, in the framework's order."""
    return tuple(point for point, base in POINTS.items() if issubclass(cls, base))


class PluginRegistration(msgspec.Struct, frozen=True):
    """A registered plugin: its class, and the distribution (or module, if it has none) that contains it."""

    name: str
    cls: type[Plugin]
    distribution: str
    in_tree: bool = False
    """True for kube-scheduler's own plugins."""

    @property
    def points(self) -> tuple[str, ...]:
        return points_of(self.cls)


class DuplicatePlugin(ValueError):
    """Two classes have the same plugin name."""


class Registry:
    """Plugins by name."""

    def __init__(self, discover: Callable[[], None] | None = None) -> None:
        """`discover` registers plugins that are slow to find, at the first lookup that fails or needs all names."""
        self._plugins: dict[str, PluginRegistration] = {}
        self._discover = discover

    def complete(self) -> None:
        """Register the plugins that are slow to find, unless that has been done."""
        discover, self._discover = self._discover, None
        if discover is not None:
            discover()

    def add(self, plugin: PluginRegistration) -> None:
        """Register a plugin. DuplicatePlugin if another class has its name; a class may be registered again."""
        registered = self._plugins.setdefault(plugin.name, plugin)
        if registered.cls is not plugin.cls:
            raise DuplicatePlugin(
                f'a plugin named "{plugin.name}" already exists: '
                f"it is claimed by {_place(registered)} and {_place(plugin)}"
            )

    def get(self, name: str) -> PluginRegistration | None:
        """Return the plugin of that name, or None."""
        if name not in self._plugins:
            self.complete()
        return self._plugins.get(name)

    def __getitem__(self, name: str) -> PluginRegistration:
        plugin = self.get(name)
        if plugin is None:
            raise KeyError(name)
        return plugin

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __iter__(self) -> Iterator[PluginRegistration]:
        self.complete()
        return iter(self._plugins.values())

    def __len__(self) -> int:
        self.complete()
        return len(self._plugins)

    def names(self) -> tuple[str, ...]:
        """Return all names in order of registration."""
        return tuple(plugin.name for plugin in self)


def _place(plugin: PluginRegistration) -> str:
    return f"{plugin.cls.__module__}:{plugin.cls.__qualname__} ({plugin.distribution})"
