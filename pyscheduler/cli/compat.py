"""Flags of kube-scheduler that manifests carry and that mean little here: a command line can stay as it is.

What would have no effect says so, once, at start. What would be wrong to ignore ends the start with one line. Those
that kube-scheduler calls deprecated count as they do there: only where there is no file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, NamedTuple

import click

import pyscheduler
from pyscheduler.cli.options import duration, switch
from pyscheduler.config.durations import parse_duration
from pyscheduler.shell import logs

KUBERNETES: Final = "1.36"
"""The version whose scheduler this one follows."""
_log = logs.get("flags")
_NO_HTTP2: Final = "HTTP/1.1 is spoken"
_NO_FILTER: Final = "all metrics are served as they are"
_NO_BUFFER: Final = "log lines go to stderr as they come"


class Ignored(NamedTuple):
    """A flag that is taken and not acted on: why, and whether it can stand without a value."""

    name: str
    why: str
    switch: bool = False


class Legacy(NamedTuple):
    """What the flags come to."""

    flag_defaults: Mapping[str, Any]
    """What counts where there is no file, in the words of the file."""
    master: str
    """Where the API server is, whatever the kubeconfig says; "" for what it says."""
    max_unschedulable_seconds: float
    """Seconds after which an unschedulable pod is tried again without a reason."""


IGNORED: Final = (
    Ignored("http2-max-streams-per-connection", _NO_HTTP2),
    Ignored("permit-address-sharing", "a port of a process that has ended is taken anyway", switch=True),
    Ignored("permit-port-sharing", "a port that another process listens on is not shared", switch=True),
    Ignored("disable-http2-serving", _NO_HTTP2, switch=True),
    Ignored("allow-metric-labels", _NO_FILTER),
    Ignored("allow-metric-labels-manifest", _NO_FILTER),
    Ignored("disabled-metrics", _NO_FILTER),
    Ignored("show-hidden-metrics-for-version", _NO_FILTER),
    Ignored("log-flush-frequency", _NO_BUFFER),
    Ignored("log-json-info-buffer-size", _NO_BUFFER),
    Ignored("log-json-split-stream", _NO_BUFFER, switch=True),
    Ignored("log-text-info-buffer-size", _NO_BUFFER),
    Ignored("log-text-split-stream", _NO_BUFFER, switch=True),
    Ignored("vmodule", "--v holds for all parts"),
    Ignored("emulation-forward-compatible", f"{KUBERNETES} is followed", switch=True),
)
"""kube-scheduler's flags without an effect here."""
_UNSUPPORTED: Final = {
    "tls_sni_cert_key": "one certificate is served whatever the name asked for: --tls-cert-file",
    "tls_curve_preferences": "the curves are OpenSSL's own choice",
}
DEFAULT_MAX_UNSCHEDULABLE: Final = 300.0
"""Seconds; 0 stands for it."""


def options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the flags; it takes what counts of them as `legacy`."""

    @wraps(command)
    def with_flags(**values: Any) -> None:
        _reject_unsupported(values)
        for flag in IGNORED:
            if values.pop(flag.name.replace("-", "_")):
                _log.warning(f"--{flag.name} has no effect: {flag.why}")
        longest = parse_duration(values.pop("pod_max_in_unschedulable_pods_duration")) or DEFAULT_MAX_UNSCHEDULABLE
        command(legacy=Legacy(_flag_defaults(values), values.pop("master"), longest), **values)

    decorated: Callable[..., None] = with_flags
    for option in reversed((*_SUPPORTED, *(_option(flag) for flag in IGNORED))):
        decorated = option(decorated)
    return decorated


def _option(flag: Ignored) -> Callable[..., Any]:
    option = switch if flag.switch else click.option
    return option(f"--{flag.name}", metavar="X", hidden=True)


def _flag_defaults(values: dict[str, Any]) -> dict[str, Any]:
    connection = {
        "contentType": values.pop("kube_api_content_type"),
        "qps": values.pop("kube_api_qps"),
        "burst": values.pop("kube_api_burst"),
    }
    said: dict[str, Any] = {
        "clientConnection": {key: value for key, value in connection.items() if value is not None} or None,
        "enableProfiling": values.pop("profiling"),
        "enableContentionProfiling": values.pop("contention_profiling"),
    }
    return {key: value for key, value in said.items() if value is not None}


def _reject_unsupported(values: dict[str, Any]) -> None:
    """BadParameter for what cannot be done, and would be missed."""
    for name in ("emulated_version", "min_compatibility_version"):
        version = values.pop(name).removeprefix("kube=").removeprefix("v")
        if version not in ("", KUBERNETES) and not version.startswith(f"{KUBERNETES}."):
            hint = f"--{name.replace('_', '-')}"
            raise click.BadParameter(f"{version} cannot be followed, {KUBERNETES} alone is", param_hint=hint)
    for name, problem in _UNSUPPORTED.items():
        if values.pop(name):
            raise click.BadParameter(problem, param_hint=f"--{name.replace('_', '-')}")


def _print_version(context: click.Context, _: click.Parameter, asked: bool | None) -> None:
    if asked and not context.resilient_parsing:
        click.echo(f"pyscheduler {pyscheduler.__version__} (Kubernetes v{KUBERNETES})")
        context.exit()


_SUPPORTED: Final = (
    click.option("--master", default="", metavar="URL", help="Where the API server is; goes before the kubeconfig."),
    click.option(
        "--pod-max-in-unschedulable-pods-duration",
        default="5m0s",
        callback=duration,
        metavar="D",
        help="After how long an unschedulable pod is tried again without a reason.",
    ),
    click.option("--kube-api-content-type", metavar="TYPE", help="clientConnection.contentType, without --config."),
    click.option("--kube-api-qps", type=float, metavar="N", help="clientConnection.qps, without --config."),
    click.option("--kube-api-burst", type=int, metavar="N", help="clientConnection.burst, without --config."),
    switch("--profiling", metavar="[=BOOL]", help="enableProfiling, without --config."),
    switch("--contention-profiling", metavar="[=BOOL]", hidden=True),
    click.option("--emulated-version", default="", metavar="V", hidden=True),
    click.option("--min-compatibility-version", default="", metavar="V", hidden=True),
    *(click.option(f"--{name.replace('_', '-')}", multiple=True, metavar="X", hidden=True) for name in _UNSUPPORTED),
    switch(
        "--version",
        metavar="[=BOOL]",
        is_eager=True,
        expose_value=False,
        callback=_print_version,
        help="Tell the version, and end.",
    ),
)
