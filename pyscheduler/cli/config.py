"""`pyscheduler config`: look at a configuration before a scheduler has to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pyscheduler.cli.options import FeatureGates, gates
from pyscheduler.config.build import build_profiles
from pyscheduler.config.load import load, show
from pyscheduler.core.framework.handle import CoreHandle

app = typer.Typer(help="Check and show configuration files.", no_args_is_help=True)
File = Annotated[Path, typer.Argument(help="A KubeSchedulerConfiguration file, as kube-scheduler takes it.")]


@app.command()
def validate(file: File, feature_gates: FeatureGates = None) -> None:
    """Print every error in FILE with its YAML path, or say that it is valid."""
    loaded = load(file, gates(feature_gates))
    build_profiles(loaded, CoreHandle())
    for warning in loaded.warnings:
        typer.echo(f"{file}: warning: {warning}")
    names = ", ".join(profile.scheduler_name for profile in loaded.profiles)
    typer.echo(f"{file}: valid; schedules pods whose spec.schedulerName is {names}")


@app.command("show")
def show_(file: File, feature_gates: FeatureGates = None) -> None:
    """Print FILE with every default filled in."""
    typer.echo(show(load(file, gates(feature_gates))), nl=False)
