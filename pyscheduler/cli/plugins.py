"""`pyscheduler plugins`: list the installed plugins, and where a configuration enables them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from pyscheduler import intree
from pyscheduler.api.plugin import ScorePlugin
from pyscheduler.cli import options
from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.cli.sections import FullHelpGroup
from pyscheduler.config.discover import OWN_DISTRIBUTION, Catalogue, installed
from pyscheduler.config.expand import ProfileSpec
from pyscheduler.config.load import default, load
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.config.other_schedulers import replacement
from pyscheduler.config.problems import ConfigError, Report
from pyscheduler.core.framework.registry import PluginRegistration, points_of
from pyscheduler.intree import DEFAULT_MULTIPOINT, FEATURE_GATES

FORMATS = ("table", "json")
_WIDTHS = (100, 240)
"""Columns of the table: at least on a terminal, where longer lines wrap, and elsewhere."""
_NOT_ENABLED = "not enabled"


@click.group(cls=FullHelpGroup)
def plugins() -> None:
    """List the installed plugins, and what replaces those of other schedulers.

    \b
      pyscheduler plugins list
      pyscheduler plugins list --config scheduler.yaml
      pyscheduler plugins list Coscheduling binpack

    A configuration can also enable a class of a file in the working directory as module:Class; see docs/plugins.md.
    """


@plugins.command("list")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@options.config
@options.feature_gates
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", help="Output format.")
def list_(names: tuple[str, ...], config: Path | None, feature_gates: tuple[str, ...], output: str) -> None:
    """List plugins that a configuration can name: whether it enables them, weight, distribution, extension points.

    Without --config it is the default profile. Plugins that no profile enables have their default weight. NAMEs limit
    the list; for a plugin of scheduler-plugins or Volcano, what replaces it is printed. Plugins that cannot be loaded
    are reported on stderr.
    """
    gates = options.gates(feature_gates)
    report = Report()
    catalogue = installed(report, gates)
    catalogue.registry.complete()
    for warning in report.warnings:
        click.echo(f"warning: {warning}", err=True)
    if report.problems:
        raise ConfigError(report.problems)
    rows = list(_rows(catalogue, load(config, gates) if config else default(gates)))
    if names:
        rows, notes = _selected(names, rows, catalogue)
        for note in notes:
            click.echo(note, err=output == "json")
    if output == "json":
        click.echo(json.dumps([asdict(row) for row in rows], indent=2))
    elif rows:
        _print(rows)


@dataclass(frozen=True)
class PluginRow:
    """Row of the list of plugins."""

    name: str
    points: tuple[str, ...]
    distribution: str
    default: bool
    """True if the default profile enables it."""
    weight: int | None
    """Default weight of its scores; None if it has no Score."""
    profiles: tuple[str, ...]
    """Profiles of the configuration that enable it."""
    weights: tuple[int, ...]
    """Weights of its scores in these profiles, 0 where it does not score."""
    disabled: str
    """Reason why no profile enables it, "" if one does."""


def _rows(catalogue: Catalogue, loaded: LoadedConfig) -> Iterator[PluginRow]:
    """Yield all plugins: those of the feature gates that are off, installed ones and those of import paths."""
    registered: Mapping[str, PluginRegistration] = {plugin.name: plugin for plugin in loaded.registry}
    for cls in intree.PLUGINS:
        yield _row(registered.get(cls.name) or PluginRegistration(cls.name, cls, OWN_DISTRIBUTION, True), loaded)
    in_tree = {cls.name for cls in intree.PLUGINS}
    yield from (_row(plugin, loaded) for plugin in registered.values() if plugin.name not in in_tree)
    for name, reason in catalogue.broken.items():
        yield PluginRow(name, (), "", False, None, (), (), f"cannot be loaded: {reason}")


def _row(plugin: PluginRegistration, loaded: LoadedConfig) -> PluginRow:
    weights = dict(DEFAULT_MULTIPOINT)
    weight = None
    if issubclass(plugin.cls, ScorePlugin):
        weight = weights.get(plugin.name) or plugin.cls.weight
    enabling = [profile for profile in loaded.profiles if plugin.name in profile.plugins]
    profiles = tuple(profile.scheduler_name for profile in enabling)
    configured = tuple(_weight(profile, plugin.name) for profile in enabling)
    gate = FEATURE_GATES.get(plugin.name)
    is_gated = gate is not None and not loaded.gates.on(gate)
    disabled = ""
    if is_gated:
        disabled = f"feature gate {gate} is off"
    elif not profiles:
        disabled = "disabled" if plugin.name in weights else _NOT_ENABLED
    name = loaded.imported.get(plugin.name)
    source = f"{plugin.distribution} ({name})" if name else plugin.distribution
    is_default = plugin.name in weights and not is_gated
    return PluginRow(plugin.name, points_of(plugin.cls), source, is_default, weight, profiles, configured, disabled)


def _weight(profile: ProfileSpec, plugin: str) -> int:
    """Return the weight of a plugin's scores in a profile, 0 if it does not score there."""
    return max(enabled.weight for point in profile.points.values() for enabled in point if enabled.name == plugin)


def _selected(
    names: Sequence[str], rows: Sequence[PluginRow], catalogue: Catalogue
) -> tuple[list[PluginRow], list[str]]:
    """Return the rows with these names, and a line for each name of another scheduler. CommandProblem for others."""
    by_name = {row.name: row for row in rows}
    notes = []
    for name in names:
        if name not in by_name:
            text = f'plugin "{name}" does not exist{catalogue.hint(name)}'
            if not replacement(name):
                raise CommandProblem(f"{text}; `pyscheduler plugins list` shows all")
            notes.append(text)
    return [by_name[name] for name in names if name in by_name], notes


def _print(rows: Sequence[PluginRow]) -> None:
    table = Table("name", "enabled", "weight", "distribution", "extension points", box=None, pad_edge=False)
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.overflow = "fold"
    for row in rows:
        enabled = ", ".join(row.profiles) or f"no: {row.disabled}"
        weights = row.weights if len({*row.weights}) > 1 else row.weights[:1]  # one if all profiles have it
        weight = ", ".join(map(str, weights)) if any(weights) else str("" if row.profiles else row.weight or "")
        table.add_row(row.name, enabled, weight, row.distribution, ", ".join(row.points))
    console = Console(soft_wrap=True, highlight=False)
    console.width = max(_WIDTHS[0], console.width) if sys.stdout.isatty() else _WIDTHS[1]
    console.print(table)
