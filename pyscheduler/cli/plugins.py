"""`pyscheduler plugins`: list the installed plugins."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import click
from rich.console import Console
from rich.table import Table

from pyscheduler.api.plugin import ScorePlugin
from pyscheduler.config.discover import installed
from pyscheduler.config.problems import ConfigError, Report
from pyscheduler.core.framework.registry import PluginRegistration, Registry
from pyscheduler.intree import DEFAULT_MULTIPOINT

FORMATS = ("table", "json")


@click.group
def plugins() -> None:
    """List the installed plugins.

    \b
      pyscheduler plugins list
      pyscheduler plugins list -o json

    A configuration can also enable a class of a file in the working directory as module:Class; see docs/plugins.md.
    """


@plugins.command("list")
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", help="Output format.")
def list_(output: str) -> None:
    """List plugins that a configuration can name: extension points, distribution, default weight.

    Plugins that cannot be loaded are reported on stderr.
    """
    rows = [_row(plugin) for plugin in _registry()]
    if output == "json":
        click.echo(json.dumps([asdict(row) for row in rows], indent=2))
        return
    table = Table("name", "extension points", "distribution", "default", "weight", box=None, pad_edge=False)
    for row in rows:
        default_set, weight = "yes" if row.default else "", str(row.weight or "")
        table.add_row(row.name, ", ".join(row.points), row.distribution, default_set, weight)
    Console().print(table)


def _registry() -> Registry:
    """Return all installed plugins. ConfigError if two have the same name."""
    report = Report()
    registry = installed(report).registry
    registry.complete()
    for warning in report.warnings:
        click.echo(f"warning: {warning}", err=True)
    if report.problems:
        raise ConfigError(report.problems)
    return registry


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


def _row(plugin: PluginRegistration) -> PluginRow:
    weights = dict(DEFAULT_MULTIPOINT)
    weight = None
    if issubclass(plugin.cls, ScorePlugin):
        weight = weights.get(plugin.name) or plugin.cls.weight
    return PluginRow(plugin.name, plugin.points, plugin.distribution, plugin.name in weights, weight)
