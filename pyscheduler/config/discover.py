"""Which plugins there are: kube-scheduler's own, those of installed distributions, and classes named by import path.

Discovery only makes plugins known. Distributions are looked through when a name is asked for that is not
kube-scheduler's: a scheduler that uses none of theirs does not wait for them, and none that is broken takes it down. A
class that cannot be loaded stops only who asks for it.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import msgspec

from pyscheduler import intree
from pyscheduler.api import Plugin
from pyscheduler.config.gates import DEFAULTS, FeatureGates
from pyscheduler.config.plugin_class import InvalidPluginClass, check_class
from pyscheduler.config.problems import Report, did_you_mean
from pyscheduler.core.framework.plugin_failure import is_external
from pyscheduler.core.framework.registry import DuplicatePlugin, PluginRegistration, Registry

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint  # which takes long to import, and few starts have use for it

GROUP = "pyscheduler.plugins"
OWN_DISTRIBUTION = "pyscheduler"


class Catalogue(msgspec.Struct):
    """Every plugin that a profile may name."""

    registry: Registry = msgspec.field(default_factory=Registry)
    unimplemented: frozenset[str] = frozenset()
    """Plugins of kube-scheduler that are known but not there: feature gates that are off keep them idle."""
    broken: dict[str, str] = msgspec.field(default_factory=dict)
    """Plugins that are installed but cannot be loaded, with the reason."""
    imported: dict[str, str] = msgspec.field(default_factory=dict)
    """The names of plugins that were given by import path, by that path."""

    def name_of(self, given: str) -> str:
        """The plugin's name, whether a configuration gives it or its import path."""
        return self.imported.get(given, given)

    def explain_unknown(self, name: str) -> str:
        """What to tell a user whose configuration names a plugin that is not there; "" if it is unheard of."""
        if name in self.broken:
            return f'plugin "{name}" cannot be loaded: {self.broken[name]}'
        return ""

    def hint(self, name: str) -> str:
        """`; did you mean …?` for a name that nothing has."""
        return did_you_mean(name, (*self.registry.names(), *self.unimplemented))

    def import_plugin(self, reference: str, path: str, report: Report) -> PluginRegistration | None:
        """Make the class at `module:Class` known, or report at `path` why it cannot be."""
        if reference in self.imported:
            return self.registry[self.imported[reference]]
        try:
            cls = load_class(reference)
            plugin = PluginRegistration(check_class(cls), cls, _distribution_of(cls.__module__))
            self.registry.complete()  # or it would be whoever comes later that is the duplicate
            self.registry.add(plugin)
        except (InvalidPluginClass, DuplicatePlugin) as e:
            report.add(path, str(e))
            return None
        self.imported[reference] = plugin.name
        return plugin


def installed(report: Report, gates: FeatureGates = DEFAULTS) -> Catalogue:
    """The in-tree plugins that the gates let in, and beyond them those that installed distributions offer.

    `report` hears what is wrong with the latter once they are looked through.
    """
    shut_out = {plugin for plugin, gate in intree.FEATURE_GATES.items() if not gates.on(gate)}
    catalogue = Catalogue(unimplemented=frozenset((*intree.UNSUPPORTED_PLUGINS, *shut_out)))
    for cls in intree.PLUGINS:
        if cls.name not in shut_out:
            catalogue.registry.add(PluginRegistration(cls.name, cls, OWN_DISTRIBUTION, in_tree=True))
    catalogue.registry.beyond = partial(_add_entry_points, catalogue, report)
    return catalogue


def _add_entry_points(catalogue: Catalogue, report: Report) -> None:
    """Add what installed distributions offer as entry points."""
    for entry in _entry_points():
        _add_entry(catalogue, entry, report)


@cache
def _entry_points() -> tuple[EntryPoint, ...]:
    """What installed distributions offer; slow to find out, and the same for as long as a process runs."""
    from importlib.metadata import entry_points

    return tuple(sorted(entry_points(group=GROUP), key=lambda entry: entry.name))


def is_import_path(name: str) -> bool:
    """Whether a plugin is named by import path."""
    return ":" in name


def load_class(reference: str) -> type[Plugin]:
    """The class at `module:Class`, where modules of the current directory count. InvalidPluginClass if there is none."""
    module_name, _, attributes = reference.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *attributes.split("."))):
        raise InvalidPluginClass(f'"{reference}" is not an import path; write it as "module:Class"')
    found = _module(module_name)
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            close = difflib.get_close_matches(attribute, dir(found), n=1)
            hint = f'; did you mean "{close[0]}"?' if close else ""
            raise InvalidPluginClass(f'the module "{module_name}" has no "{attributes}"{hint}')
        found = getattr(found, attribute)
    if not isinstance(found, type):
        raise InvalidPluginClass(f'"{reference}" is not a class')
    return found


def _module(name: str) -> Any:
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)  # at the end: a file there must not take the place of an installed module
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except BaseException as e:  # whatever a user's module does at import, the answer is one line
        if is_external(e):
            raise
        raise InvalidPluginClass(f'the module "{name}" cannot be imported: {_cause(e, here)}') from None


def _cause(error: BaseException, here: str) -> str:
    where = f" (looked in {here} and the installed packages)" if isinstance(error, ModuleNotFoundError) else ""
    return f"{type(error).__name__}: {error}{where}"


def _add_entry(catalogue: Catalogue, entry: EntryPoint, report: Report) -> None:
    distribution = entry.dist.name if entry.dist else "an unknown distribution"
    try:
        cls = load_class(entry.value.partition("[")[0].strip().replace(" ", ""))
        name = check_class(cls)
        if name != entry.name:
            raise InvalidPluginClass(f'the entry point "{entry.name}" leads to a plugin with the name "{name}"')
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
    """The distributions of every top-level package; slow to find out, and the same for as long as a process runs."""
    from importlib.metadata import packages_distributions

    return packages_distributions()
