"""Options that several commands share, and what they come to."""

from __future__ import annotations

from collections.abc import Coroutine
from logging import WARNING, getLogger
from pathlib import Path
from typing import Annotated, Any

import typer

from pyscheduler.config.load import LoadedConfig, default, load
from pyscheduler.shell import logs

Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="KubeSchedulerConfiguration; the default profile without one."),
]
Verbosity = Annotated[int, typer.Option("--v", metavar="N", help="Log verbosity; higher says more.")]
Format = Annotated[str, typer.Option("--logging-format", metavar="text|json", help="How log lines are written.")]


def loaded(config: Path | None) -> LoadedConfig:
    """The configuration of `--config`, its warnings logged. ConfigError if it cannot be used."""
    result = load(config) if config else default()
    for warning in result.warnings:
        logs.get("config").warning(warning)
    return result


def logging(format: str, verbosity: int, quiet: bool = False) -> None:
    """Set up logs; quiet ones tell of problems only. BadParameter for an unknown format."""
    if format not in ("text", "json"):
        raise typer.BadParameter(f"{format!r} is not text or json", param_hint="--logging-format")
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
