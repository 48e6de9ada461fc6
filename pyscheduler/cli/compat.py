"""kube-scheduler flags accepted for compatibility, so that existing manifests work unchanged.

Flags without an effect log a warning at start; flags that must not be ignored end the start with an error. Flags that
kube-scheduler has deprecated apply only without --config, as in kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, NamedTuple

import click

import pyscheduler
from pyscheduler import logs
from pyscheduler.cli.options import API_SERVER, CONFIGURATION, FiniteNumber, duration, switch
from pyscheduler.cli.sections import option
from pyscheduler.config.durations import parse_duration
from pyscheduler.config.gates import EMULATED_VERSIONS, TARGET

_log = logs.get("flags")
_NO_HTTP2: Final = "only HTTP/1.1 is supported"
_NO_FILTER: Final = "all metrics are served unfiltered"
_NO_BUFFER: Final = "log lines are written to stderr without a buffer"


class Ignored(NamedTuple):
    """Flag without an effect, with the reason; `switch` if it may be given without a value."""

    name: str
    why: str
    switch: bool = False


class Legacy(NamedTuple):
    """Values of the compatibility flags."""

    flag_defaults: Mapping[str, Any]
    """Configuration fields set by deprecated flags, used without --config."""
    master: str
    """URL of the API server, overrides the kubeconfig; "" for that of the kubeconfig."""
    max_unschedulable_seconds: float
    """Seconds after which an unschedulable pod is retried without an event."""
    emulated_version: str
    """Kubernetes version with the defaults of the feature gates."""


IGNORED: Final = (
    Ignored("http2-max-streams-per-connection", _NO_HTTP2),
    Ignored("permit-address-sharing", "the port of an ended process is always reused", switch=True),
    Ignored("permit-port-sharing", "a port in use by another process cannot be shared", switch=True),
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
    Ignored("vmodule", "--v applies to all modules"),
    Ignored("emulation-forward-compatible", "no API is served", switch=True),
)
"""kube-scheduler flags without an effect here."""
_UNSUPPORTED: Final = {
    "tls_sni_cert_key": "SNI certificates are not supported; use --tls-cert-file",
    "tls_curve_preferences": "not supported; OpenSSL selects the curves",
}
DEFAULT_MAX_UNSCHEDULABLE: Final = 300.0
"""Seconds; also used for a flag value of 0."""


def options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags to a command, which receives them as `legacy`."""

    @wraps(command)
    def with_flags(**values: Any) -> None:
        _reject_unsupported(values)
        emulated, _ = (_version(values.pop(name), name) for name in ("emulated_version", "min_compatibility_version"))
        for flag in IGNORED:
            if values.pop(flag.name.replace("-", "_")):
                _log.warning(f"--{flag.name} has no effect: {flag.why}")
        longest = parse_duration(values.pop("pod_max_in_unschedulable_pods_duration")) or DEFAULT_MAX_UNSCHEDULABLE
        command(legacy=Legacy(_flag_defaults(values), values.pop("master"), longest, emulated), **values)

    decorated: Callable[..., None] = with_flags
    for add in reversed((*_SUPPORTED, *(_option(flag) for flag in IGNORED))):
        decorated = add(decorated)
    return decorated


def _option(flag: Ignored) -> Callable[..., Any]:
    add = switch if flag.switch else option
    return add(f"--{flag.name}", metavar="X", hidden=True)


def _flag_defaults(values: dict[str, Any]) -> dict[str, Any]:
    connection = {
        "contentType": values.pop("kube_api_content_type"),
        "qps": values.pop("kube_api_qps"),
        "burst": values.pop("kube_api_burst"),
    }
    fields: dict[str, Any] = {
        "clientConnection": {key: value for key, value in connection.items() if value is not None} or None,
        "enableProfiling": values.pop("profiling"),
        "enableContentionProfiling": values.pop("contention_profiling"),
    }
    return {key: value for key, value in fields.items() if value is not None}


def _reject_unsupported(values: dict[str, Any]) -> None:
    """Raise BadParameter for flags that are not supported and must not be ignored."""
    for name, problem in _UNSUPPORTED.items():
        if values.pop(name):
            raise click.BadParameter(problem, param_hint=f"--{name.replace('_', '-')}")


def _version(text: str, flag: str) -> str:
    """Return the minor version that a flag names, by default that of Kubernetes. BadParameter for any other."""
    stated = text.removeprefix("kube=").removeprefix("v")
    version = ".".join(stated.split(".")[:2]) or TARGET
    if version not in EMULATED_VERSIONS:
        supported = " and ".join(EMULATED_VERSIONS)
        raise click.BadParameter(
            f"{stated} is not supported, only {supported} are", param_hint=f"--{flag.replace('_', '-')}"
        )
    return version


def _print_version(context: click.Context, _: click.Parameter, requested: bool | None) -> None:
    if requested and not context.resilient_parsing:
        click.echo(f"pyscheduler {pyscheduler.__version__} (Kubernetes v{TARGET})")
        context.exit()


_SUPPORTED: Final = (
    option("--master", section=API_SERVER, default="", metavar="URL", help="API server URL; overrides the kubeconfig."),
    option(
        "--pod-max-in-unschedulable-pods-duration",
        section=CONFIGURATION,
        default="5m0s",
        callback=duration,
        metavar="D",
        help="Retry an unschedulable pod after this time even without an event.",
    ),
    option(
        "--kube-api-content-type",
        section=API_SERVER,
        metavar="TYPE",
        help="Sets clientConnection.contentType if there is no --config.",
    ),
    option(
        "--kube-api-qps",
        section=API_SERVER,
        type=FiniteNumber(),
        metavar="N",
        help="Sets clientConnection.qps if there is no --config.",
    ),
    option(
        "--kube-api-burst",
        section=API_SERVER,
        type=int,
        metavar="N",
        help="Sets clientConnection.burst if there is no --config.",
    ),
    switch(
        "--profiling", section=CONFIGURATION, metavar="[=BOOL]", help="Sets enableProfiling if there is no --config."
    ),
    switch("--contention-profiling", metavar="[=BOOL]", hidden=True),
    option("--emulated-version", default="", metavar="V", hidden=True),
    option("--min-compatibility-version", default="", metavar="V", hidden=True),
    *(option(f"--{name.replace('_', '-')}", multiple=True, metavar="X", hidden=True) for name in _UNSUPPORTED),
    switch(
        "--version",
        metavar="[=BOOL]",
        is_eager=True,
        expose_value=False,
        callback=_print_version,
        help="Print the version and exit.",
    ),
)
