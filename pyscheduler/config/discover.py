"""Plugin discovery: in-tree plugins, entry points of installed distributions, and classes given by import path.

Discovery only registers plugins. Entry points are searched when a name is not an in-tree plugin, so a scheduler without
external plugins neither waits for the search nor fails on a broken distribution. A class that cannot be loaded is an
error only for configurations that name it.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from pyscheduler import intree
from pyscheduler.api import Plugin
from pyscheduler.config.gates import DEFAULTS, FeatureGates
from pyscheduler.config.other_schedulers import replacement
from pyscheduler.config.plugin_class import InvalidPluginClass, check_class
from pyscheduler.config.problems import Report, did_you_mean
from pyscheduler.core.framework.plugin_failure import is_external
from pyscheduler.core.framework.registry import DuplicatePlugin, PluginRegistration, Registry
from pyscheduler.texts import text_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint  # slow to import and rarely needed

GROUP = "pyscheduler.plugins"
OWN_DISTRIBUTION = "pyscheduler"


class Catalogue(msgspec.Struct):
    """Plugins that a profile can name."""

    registry: Registry = msgspec.field(default_factory=Registry)
    unimplemented: frozenset[str] = frozenset()
    """In-tree plugins of kube-scheduler that are not available because their feature gates are off."""
    broken: dict[str, str] = msgspec.field(default_factory=dict)
    """Installed plugins that cannot be loaded, with the reason."""
    imported: dict[str, str] = msgspec.field(default_factory=dict)
    """Names of plugins by the import path in the configuration."""

    def name_of(self, reference: str) -> str:
        """Return the name of a plugin given by name or import path."""
        return self.imported.get(reference, reference)

    def explain_unknown(self, name: str) -> str:
        """Return the reason why an installed plugin cannot be loaded, "" if there is no such plugin."""
        if name in self.broken:
            return f'plugin "{name}" cannot be loaded: {self.broken[name]}'
        return ""

    def hint(self, name: str) -> str:
        """Return `; did you mean …?` or what replaces a plugin of another scheduler for an unknown name, or ""."""
        instead = replacement(name)
        if instead:
            return f"; {instead}"
        module, dot, cls = name.rpartition(".")
        if dot and module and cls:
            return f'; did you mean "{module}:{cls}"? A class of a file is named as module:Class'
        return did_you_mean(name, (*self.registry.names(), *self.unimplemented))

    def import_plugin(self, reference: str, path: str, report: Report) -> PluginRegistration | None:
        """Register the class at `module:Class`. If it cannot be loaded, report that at `path` and return None."""
        if reference in self.imported:
            return self.registry[self.imported[reference]]
        try:
            cls = load_class(reference)
            plugin = PluginRegistration(check_class(cls), cls, _distribution_of(cls.__module__))
            self.registry.complete()  # entry points come first, so that the import is reported as the duplicate
            self.registry.add(plugin)
        except (InvalidPluginClass, DuplicatePlugin) as e:
            report.add(path, str(e))
            return None
        self.imported[reference] = plugin.name
        return plugin


def installed(report: Report, gates: FeatureGates = DEFAULTS) -> Catalogue:
    """Return a catalogue of the in-tree plugins that the feature gates enable and of those of installed distributions.

    The latter are loaded on demand; their errors are added to `report`.
    """
    disabled = {plugin for plugin, gate in intree.FEATURE_GATES.items() if not gates.on(gate)}
    registry = Registry(lambda: _add_entry_points(catalogue, report))
    catalogue = Catalogue(registry, frozenset(disabled))
    instead = {cls.name: cls for off, cls in intree.GATED_BEHAVIOUR if not any(map(gates.on, off))}
    for cls in intree.PLUGINS:
        if cls.name not in disabled:
            chosen = instead.get(cls.name, cls)
            catalogue.registry.add(PluginRegistration(cls.name, chosen, OWN_DISTRIBUTION, in_tree=True))
    return catalogue


def _add_entry_points(catalogue: Catalogue, report: Report) -> None:
    """Add the entry points of installed distributions."""
    for entry in _entry_points():
        _add_entry(catalogue, entry, report)


@cache
def _entry_points() -> tuple[EntryPoint, ...]:
    """Return the entry points of installed distributions. Slow, so cached for the lifetime of the process."""
    from importlib.metadata import entry_points

    return tuple(sorted(entry_points(group=GROUP), key=lambda entry: entry.name))


def is_import_path(name: str) -> bool:
    """Return True if a plugin is given by import path."""
    return ":" in name


def load_class(reference: str) -> type[Plugin]:
    """Return the class at `module:Class`, also from the current directory. InvalidPluginClass if that fails."""
    module_name, _, attributes = reference.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *attributes.split("."))):
        raise InvalidPluginClass(f'"{reference}" is not an import path; write it as "module:Class"')
    target = _module(module_name)
    for attribute in attributes.split("."):
        if not hasattr(target, attribute):
            close = difflib.get_close_matches(attribute, dir(target), n=1)
            hint = f'; did you mean "{close[0]}"?' if close else ""
            raise InvalidPluginClass(f'the module "{module_name}" has no "{attributes}"{hint}')
        target = getattr(target, attribute)
    if not isinstance(target, type):
        raise InvalidPluginClass(f'"{reference}" is not a class')
    return target


def _module(name: str) -> Any:
    cwd = os.getcwd()
    if cwd not in sys.path and "" not in sys.path:
        sys.path.append(cwd)  # at the end: local files must not shadow installed modules
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except BaseException as e:  # an import may raise anything; report it in one line
        if is_external(e):
            raise
        raise InvalidPluginClass(f'the module "{name}" cannot be imported: {_cause(e, cwd)}') from None


def _cause(error: BaseException, cwd: str) -> str:
    where = ""
    if isinstance(error, ModuleNotFoundError):
        where = (
            f" (looked in {cwd} and the installed packages; run pyscheduler in the folder of the module, or add that "
            "folder to PYTHONPATH)"
        )
    return f"{type(error).__name__}: {text_of(error)}{where}"


def _add_entry(catalogue: Catalogue, entry: EntryPoint, report: Report) -> None:
    distribution = entry.dist.name if entry.dist else "an unknown distribution"
    try:
        cls = load_class(entry.value.partition("[")[0].strip().replace(" ", ""))
        name = check_class(cls)
        if name != entry.name:
            raise InvalidPluginClass(f'the entry point "{entry.name}" refers to a plugin with the name "{name}"')
        catalogue.registry.add(PluginRegistration(name, cls, distribution))
    except InvalidPluginClass as e:
        catalogue.broken[entry.name] = str(e)
        report.warn(f'plugin "{entry.name}" of {distribution} cannot be loaded: {e}')
    except DuplicatePlugin as e:
        report.add("", f"{e}; uninstall one of them")


def _distribution_of(module: str) -> str:
    package = module.partition(".")[0]
    return next(iter(_packages().get(package, ())), module)


@cache
def _packages() -> Mapping[str, list[str]]:
    """Return the distributions by top-level package. Slow, so cached for the lifetime of the process."""
    from importlib.metadata import packages_distributions

    return packages_distributions()
