"""The plugins that exist: which class a name stands for, where it comes from and which extension points it serves.

A registry only makes plugins known; a profile enables them (kube-scheduler's framework/runtime Registry). It is filled
by whoever can import modules, so that nothing here has to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import msgspec

from pyscheduler.api import (
    BindPlugin,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)

POINTS: Mapping[str, type[Plugin]] = MappingProxyType(
    {
        "preEnqueue": PreEnqueuePlugin,
        "queueSort": QueueSortPlugin,
        "preFilter": PreFilterPlugin,
        "filter": FilterPlugin,
        "postFilter": PostFilterPlugin,
        "preScore": PreScorePlugin,
        "score": ScorePlugin,
        "reserve": ReservePlugin,
        "permit": PermitPlugin,
        "preBind": PreBindPlugin,
        "bind": BindPlugin,
        "postBind": PostBindPlugin,
    }
)
"""The extension points in the order in which a pod meets them, each with the base class that serves it.

They are named as configurations name them: `preFilter`, not `PreFilter`."""


def points_of(cls: type) -> tuple[str, ...]:
    """The extension points that a plugin class serves, in the framework's order."""
    return tuple(point for point, base in POINTS.items() if issubclass(cls, base))


class PluginRegistration(msgspec.Struct, frozen=True):
    """A known plugin: its class, and the distribution (or module, if it is in none) that it was found in."""

    name: str
    cls: type[Plugin]
    distribution: str
    in_tree: bool = False
    """Whether it is one of kube-scheduler's own plugins."""

    @property
    def points(self) -> tuple[str, ...]:
        return points_of(self.cls)


class DuplicatePlugin(ValueError):
    """Two classes claim one plugin name."""


class Registry:
    """Plugins by name."""

    def __init__(self) -> None:
        self._plugins: dict[str, PluginRegistration] = {}
        self.beyond: Callable[[], None] | None = None
        """Adds the plugins that take long to find; called once, as soon as those that are here are not enough."""

    def complete(self) -> None:
        """Make known what is to be found beyond, unless that has been done."""
        beyond, self.beyond = self.beyond, None
        if beyond is not None:
            beyond()

    def add(self, plugin: PluginRegistration) -> None:
        """Make a plugin known. DuplicatePlugin if another class has its name; the same class again changes nothing."""
        known = self._plugins.setdefault(plugin.name, plugin)
        if known.cls is not plugin.cls:
            raise DuplicatePlugin(
                f'a plugin named "{plugin.name}" already exists: it is claimed by {_place(known)} and {_place(plugin)}'
            )

    def get(self, name: str) -> PluginRegistration | None:
        """The plugin of that name, or None."""
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
        """All names, in the order of registration."""
        return tuple(plugin.name for plugin in self)


def _place(plugin: PluginRegistration) -> str:
    return f"{plugin.cls.__module__}:{plugin.cls.__qualname__} ({plugin.distribution})"
