"""`pyscheduler config`: look at a configuration before a scheduler has to."""

from __future__ import annotations

from pathlib import Path

import click

from pyscheduler.cli.options import FILE, feature_gates, gates
from pyscheduler.config.build import build_profiles
from pyscheduler.config.load import load, show
from pyscheduler.core.framework.handle import CoreHandle

_file = click.argument("file", type=FILE)


@click.group
def config() -> None:
    """Check and show configuration files."""


@config.command
@_file
@feature_gates
def validate(file: Path, feature_gates: tuple[str, ...]) -> None:
    """Print every error in FILE (a KubeSchedulerConfiguration) with its YAML path, or say that it is valid."""
    loaded = load(file, gates(feature_gates))
    build_profiles(loaded, CoreHandle())
    for warning in loaded.warnings:
        click.echo(f"{file}: warning: {warning}")
    names = ", ".join(profile.scheduler_name for profile in loaded.profiles)
    click.echo(f"{file}: valid; schedules pods whose spec.schedulerName is {names}")


@config.command("show")
@_file
@feature_gates
def show_(file: Path, feature_gates: tuple[str, ...]) -> None:
    """Print FILE (a KubeSchedulerConfiguration) with every default filled in."""
    click.echo(show(load(file, gates(feature_gates))), nl=False)
