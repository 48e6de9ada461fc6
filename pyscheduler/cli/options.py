"""Options shared by several commands, and their parsing."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import wraps
from logging import WARNING, getLogger
from math import isfinite
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from pyscheduler import logs
from pyscheduler.cli.sections import option
from pyscheduler.config.durations import parse_duration
from pyscheduler.config.fields import camel
from pyscheduler.config.gates import DEFAULTS, TARGET, FeatureGateError, FeatureGates, parse
from pyscheduler.config.load import LoadedConfig, default, load, show
from pyscheduler.config.problems import ConfigError, Problem
from pyscheduler.config.types import DEFAULT_SCHEDULER_NAME

T = TypeVar("T")
FILE: Final = click.Path(path_type=Path)
READABLE: Final = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
FOLDER: Final = click.Path(file_okay=False, path_type=Path)


class IntegerRange(click.IntRange):
    """Range of integers that messages call an integer, not an "integer range"."""

    name = "integer"


PORT: Final = IntegerRange(0, 65535)
CONFIGURATION: Final = "Configuration"
API_SERVER: Final = "API server"
TASKS: Final = "Tasks"
_LEADER_ELECTION: Final = "Leader election"
_LOGS: Final = "Logs"
SCHEDULER_NAMES: Final = (DEFAULT_SCHEDULER_NAME, "pyscheduler")
"""Scheduler names that `up` and `evaluate` serve without a configuration."""
config = option(
    "--config",
    section=CONFIGURATION,
    type=FILE,
    metavar="FILE",
    help="KubeSchedulerConfiguration file (default: the default profile).",
)
feature_gates = option(
    "--feature-gates",
    section=CONFIGURATION,
    multiple=True,
    metavar="NAME=BOOL,...",
    help="Feature gates, as in kube-scheduler. May be repeated.",
)
task_state = option(
    "--state",
    section=TASKS,
    type=FILE,
    default="tasks.db",
    envvar="PYSCHEDULER_TASKS_STATE",
    show_envvar=True,
    metavar="FILE",
    help="State file, on a local disk.",
)


class OutputFile(click.Path):
    """File to write; what would prevent it at the end of a long command is an error before the start."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        file = Path(os.fsdecode(super().convert(value, param, ctx)))
        folder = file.parent
        if not file.exists() and not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
            problem = "is not writable" if folder.is_dir() else "does not exist"
            self.fail(f"{file}: the folder {folder} {problem}", param, ctx)
        return file


WRITABLE: Final = OutputFile()


class FiniteNumber(click.types.FloatParamType):
    """Number that is neither NaN nor infinite."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class FiniteRange(FiniteNumber, click.FloatRange):
    """Range of finite numbers."""


SECONDS: Final = FiniteRange(min=0)


def _integer(text: object) -> int:
    digits = str(text).removeprefix("=")  # Go accepts -v=2, click -v2
    try:
        return int(digits)
    except ValueError:
        raise click.BadParameter(f"{digits!r} is not an integer") from None


verbosity = option(
    "--v",
    "-v",
    "verbosity",
    section=_LOGS,
    type=_integer,
    default=0,
    metavar="N",
    help="Log verbosity; higher numbers log more.",
)
logging_format = option(
    "--logging-format", section=_LOGS, default="text", metavar="text|json", help="Format of log lines."
)


def duration(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    if text is not None:
        try:
            parse_duration(text)
        except ValueError as problem:
            raise click.BadParameter(str(problem)) from None
    return text


class Boolean(click.types.BoolParamType):
    """Boolean with a short error: click's lists a dozen values, of which one is empty."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is neither true nor false", param, ctx)


def switch(name: str, default: bool | None = None, **more: Any) -> Callable[..., Any]:
    """Return a boolean option that may be given without a value, as in Go."""
    return option(name, type=Boolean(), default=default, is_flag=False, flag_value="true", **more)


_ELECTION: Final = (
    switch(
        "--leader-elect",
        section=_LEADER_ELECTION,
        metavar="[=BOOL]",
        help="Schedule only while holding the Lease, so that several replicas can run.",
    ),
    option(
        "--leader-elect-lease-duration",
        "lease_duration",
        section=_LEADER_ELECTION,
        callback=duration,
        metavar="D",
        help="Another replica may take over this long after the last renewal.",
    ),
    option(
        "--leader-elect-renew-deadline",
        "renew_deadline",
        section=_LEADER_ELECTION,
        callback=duration,
        metavar="D",
        help="The leader stops this long after its last renewal.",
    ),
    option(
        "--leader-elect-retry-period",
        "retry_period",
        section=_LEADER_ELECTION,
        callback=duration,
        metavar="D",
        help="Interval between attempts to acquire or renew the Lease.",
    ),
    option(
        "--leader-elect-resource-lock",
        "resource_lock",
        section=_LEADER_ELECTION,
        metavar="KIND",
        help="Must be leases.",
    ),
    option(
        "--leader-elect-resource-name",
        "resource_name",
        section=_LEADER_ELECTION,
        metavar="NAME",
        help="Name of the Lease.",
    ),
    option(
        "--leader-elect-resource-namespace",
        "resource_namespace",
        section=_LEADER_ELECTION,
        metavar="NS",
        help="Namespace of the Lease.",
    ),
)


def leader_election(command: Callable[..., T]) -> Callable[..., T]:
    """Add kube-scheduler's flags that override `leaderElection` of the file; `election` reads them."""
    for add in reversed(_ELECTION):
        command = add(command)
    return command


def election(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given flags as fields of `leaderElection`."""
    return {camel(name): value for name, value in flags.items() if value is not None}


def all_flags(context: click.Context) -> dict[str, Any]:
    """Every flag of the command that runs, by its name, with its value."""
    flags = [(p.opts[0].lstrip("-"), p.name or "") for p in context.command.params if isinstance(p, click.Option)]
    return {flag: context.params[name] for flag, name in flags if name in context.params}


def gates(feature_gates: Iterable[str], emulated_version: str = TARGET) -> FeatureGates:
    """Parse `--feature-gates`. BadParameter if a gate is unknown or cannot be set."""
    try:
        return parse(feature_gates, emulated_version)
    except FeatureGateError as problem:
        raise click.BadParameter(str(problem), param_hint="--feature-gates") from None


def loaded(
    config: Path | None,
    gates: FeatureGates = DEFAULTS,
    election: Mapping[str, Any] | None = None,
    flag_defaults: Mapping[str, Any] | None = None,
) -> LoadedConfig:
    """Load the configuration of `--config` and log its warnings. ConfigError if it is invalid.

    `election` overrides its leaderElection; `flag_defaults` is used without a file.
    """
    if config and flag_defaults:
        logs.get("config").warning(f"ignored with --config: flags for {', '.join(flag_defaults)}")
    result = load(config, gates, election) if config else default(gates, election, flag_defaults)
    for warning in result.warnings:
        logs.get("config").warning(warning)
    return result


def write(config: LoadedConfig, file: Path) -> None:
    """Write a configuration with all defaults filled in. ConfigError if the file cannot be written."""
    try:
        file.write_text(show(config), encoding="utf-8")
    except OSError as error:
        raise ConfigError([Problem("", f"cannot be written: {error.strerror or error}")], str(file)) from None


def logged(command: Callable[..., None]) -> Callable[..., None]:
    """Add the logging flags to a command; logging is set up before it runs."""

    @wraps(command)
    def with_logs(verbosity: int, logging_format: str, **values: Any) -> None:
        logging(logging_format, verbosity)
        command(**values)

    return verbosity(logging_format(with_logs))


def logging(format: str, verbosity: int, quiet: bool = False) -> None:
    """Set up logging; `quiet` logs only warnings and errors. BadParameter for an unknown format."""
    if format not in ("text", "json"):
        raise click.BadParameter(f"{format!r} is not text or json", param_hint="--logging-format")
    logs.setup(format, verbosity)
    if quiet:
        getLogger("pyscheduler").setLevel(WARNING)


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine on uvloop if it is installed, else on asyncio's loop; return its result."""
    try:
        import uvloop
    except ImportError:
        import asyncio

        return asyncio.run(main)
    result: T = uvloop.run(main)
    return result
