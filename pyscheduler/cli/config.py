"""`pyscheduler config`: validate a configuration and show its defaults."""

from __future__ import annotations

from pathlib import Path

import click

from pyscheduler.cli.options import FILE, feature_gates, gates
from pyscheduler.config.build import build_profiles
from pyscheduler.config.load import load, show
from pyscheduler.core.framework.handle import empty_handle

_file = click.argument("file", type=FILE)


@click.group
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
