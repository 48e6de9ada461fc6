"""Options that several commands share, and what they come to."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from logging import WARNING, getLogger
from pathlib import Path
from typing import Any, Final

import click

from pyscheduler.config.gates import GateProblem, Gates, parse
from pyscheduler.config.load import LoadedConfig, default, load, show
from pyscheduler.config.problems import ConfigError, Problem
from pyscheduler.shell import logs

FILE: Final = click.Path(path_type=Path)
config = click.option(
    "--config", type=FILE, metavar="FILE", help="KubeSchedulerConfiguration; the default profile without one."
)
feature_gates = click.option(
    "--feature-gates",
    multiple=True,
    metavar="NAME=BOOL,...",
    help="Feature gates, as kube-scheduler takes them; may be repeated.",
)
verbosity = click.option("--v", "verbosity", default=0, metavar="N", help="Log verbosity; higher says more.")
logging_format = click.option(
    "--logging-format", default="text", metavar="text|json", help="How log lines are written."
)


def gates(feature_gates: Iterable[str]) -> Gates:
    """The gates of `--feature-gates`. BadParameter if they cannot be set so."""
    try:
        return parse(feature_gates)
    except GateProblem as problem:
        raise click.BadParameter(str(problem), param_hint="--feature-gates") from None


def loaded(config: Path | None, feature_gates: Iterable[str] = ()) -> LoadedConfig:
    """The configuration of `--config` with `--feature-gates`, its warnings logged. ConfigError if it cannot be used."""
    on = gates(feature_gates)
    result = load(config, on) if config else default(on)
    for warning in result.warnings:
        logs.get("config").warning(warning)
    return result


def write(config: LoadedConfig, file: Path) -> None:
    """Write a configuration with every default filled in. ConfigError if the file cannot be written."""
    try:
        file.write_text(show(config), encoding="utf-8")
    except OSError as error:
        raise ConfigError([Problem("", f"cannot be written: {error.strerror or error}")], str(file)) from None


def logging(format: str, verbosity: int, quiet: bool = False) -> None:
    """Set up logs; quiet ones tell of problems only. BadParameter for an unknown format."""
    if format not in ("text", "json"):
        raise click.BadParameter(f"{format!r} is not text or json", param_hint="--logging-format")
    logs.setup(format, verbosity)
    if quiet:
        getLogger("pyscheduler").setLevel(WARNING)


def run_async(main: Coroutine[Any, Any, int]) -> int:
    """Run to the end on the quickest event loop that this platform has; what `main` returns."""
    try:
        import uvloop
    except ImportError:
        import asyncio

        return asyncio.run(main)
    result: int = uvloop.run(main)
    return result
