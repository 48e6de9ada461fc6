"""`pyscheduler config`: validate a configuration, show its defaults, translate that of Volcano."""

from __future__ import annotations

from pathlib import Path

import click
import yaml
from rich.console import Console
from rich.table import Table

from pyscheduler.cli.options import FILE, feature_gates, gates
from pyscheduler.cli.problems import unreadable
from pyscheduler.cli.sections import FullHelpGroup
from pyscheduler.cli.volcano.conf import parse
from pyscheduler.cli.volcano.translate import translate
from pyscheduler.config.build import build_profiles
from pyscheduler.config.load import load, show
from pyscheduler.core.framework.handle import empty_handle

_file = click.argument("file", type=FILE)


@click.group(cls=FullHelpGroup)
def config() -> None:
    """Validate configuration files and show their defaults.

    \b
    No file yet? Write one that has every setting with its default:
      pyscheduler run --write-config-to scheduler.yaml
      pyscheduler config validate scheduler.yaml
    """


@config.command
@_file
@feature_gates
def validate(file: Path, feature_gates: tuple[str, ...]) -> None:
    """Check FILE, a KubeSchedulerConfiguration; print every error with its YAML path."""
    loaded = load(file, gates(feature_gates))
    build_profiles(loaded, empty_handle())
    for warning in loaded.warnings:
        click.echo(f"{file}: warning: {warning}")
    names = ", ".join(profile.scheduler_name for profile in loaded.profiles)
    click.echo(f"{file}: valid; schedules pods with spec.schedulerName {names}")


@config.command("show")
@_file
@feature_gates
def show_(file: Path, feature_gates: tuple[str, ...]) -> None:
    """Print FILE, a KubeSchedulerConfiguration, with all defaults filled in."""
    click.echo(show(load(file, gates(feature_gates))), nl=False)


@config.command("from-volcano")
@_file
@click.option(
    "--scheduler-name", default="volcano", metavar="NAME", help="spec.schedulerName of the pods.", show_default=True
)
def from_volcano(file: Path, scheduler_name: str) -> None:
    """Translate FILE, the configuration of Volcano's scheduler, into a KubeSchedulerConfiguration.

    \b
      kubectl get configmap -n volcano-system volcano-scheduler-configmap -o yaml > volcano.yaml
      pyscheduler config from-volcano volcano.yaml > scheduler.yaml

    FILE is volcano-scheduler.conf or the ConfigMap that has it. stderr lists what becomes of each setting. Stop
    Volcano's scheduler before this one uses its name.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as error:
        raise unreadable(file, error) from None
    translation = translate(parse(text, str(file)), scheduler_name)
    table = Table("Volcano", "here", "meaning", box=None, pad_edge=False)
    for setting, result, meaning in translation.rows:
        table.add_row(setting, result.value, meaning)
    Console(stderr=True).print(table)
    click.echo(yaml.safe_dump(translation.configuration, sort_keys=False), nl=False)
