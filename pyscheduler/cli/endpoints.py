"""The endpoints of `run`: kube-scheduler's flags for them, what is served, and to whom."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from pyscheduler.cli.options import FILE
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.shell.clock import Clock
from pyscheduler.shell.health import Checks
from pyscheduler.shell.kube.connection import Connection, ConnectionOptions
from pyscheduler.shell.scheduler import Scheduler

if TYPE_CHECKING:
    from pyscheduler.shell.client_ca import ClientAuthorities
    from pyscheduler.shell.gate import Gate
    from pyscheduler.shell.http import Page
    from pyscheduler.shell.webserver import Answer, Question

_HIDDEN: Final = "(not shown)"
_REVIEWS: Final = ConnectionOptions(connections=2, qps=20, burst=40, timeout=10.0)
"""Reviews have connections of their own and never take a binding's; nor do strangers keep the API server busy."""


class EndpointOptions(msgspec.Struct, frozen=True):
    """What the flags say; kube-scheduler has them all under these names."""

    bind_address: str
    secure_port: int
    cert_dir: Path | None
    tls_cert_file: Path | None
    tls_private_key_file: Path | None
    tls_min_version: str
    tls_cipher_suites: str
    client_ca_file: Path | None
    authentication_kubeconfig: Path | None
    authentication_skip_lookup: bool
    authentication_tolerate_lookup_failure: bool
    authorization_kubeconfig: Path | None
    authorization_always_allow_paths: str


_OPTIONS: Final = (
    click.option("--bind-address", default="0.0.0.0", metavar="A", help="Where the endpoints are served."),
    click.option("--secure-port", default=10259, metavar="P", help="Their port, HTTPS; 0 serves none."),
    click.option(
        "--cert-dir", type=FILE, metavar="DIR", help="Where a certificate made here is kept: pyscheduler.crt."
    ),
    click.option("--tls-cert-file", type=FILE, metavar="FILE", help="The certificate; without one it is made here."),
    click.option("--tls-private-key-file", type=FILE, metavar="FILE", help="Its key."),
    click.option("--tls-min-version", default="", metavar="V", help="VersionTLS12 (unless given) or VersionTLS13."),
    click.option("--tls-cipher-suites", default="", metavar="NAME,...", help="Cipher suites of TLS 1.2."),
    click.option(
        "--client-ca-file", type=FILE, metavar="FILE", help="Who signs clients' certificates; else the cluster's."
    ),
    click.option(
        "--authentication-kubeconfig", type=FILE, metavar="FILE", help="Who reviews tokens; else as --kubeconfig."
    ),
    click.option(
        "--authentication-skip-lookup",
        type=bool,
        default=False,
        metavar="BOOL",
        help="Do not look up in the cluster who signs clients' certificates.",
    ),
    click.option(
        "--authentication-tolerate-lookup-failure",
        type=bool,
        default=True,
        metavar="BOOL",
        help="Start without, if that fails.",
    ),
    click.option(
        "--authorization-kubeconfig", type=FILE, metavar="FILE", help="Who reviews access; else as --kubeconfig."
    ),
    click.option(
        "--authorization-always-allow-paths",
        default="/healthz,/readyz,/livez",
        metavar="PATH,...",
        help="What everybody may ask for; a trailing * stands for anything.",
    ),
)


def options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the flags; it takes what they say as `serving`."""

    @wraps(command)
    def with_endpoints(**values: Any) -> None:
        own = {name: values.pop(name) for name in EndpointOptions.__struct_fields__}
        command(serving=EndpointOptions(**own), **values)

    decorated: Callable[..., None] = with_endpoints
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def pages(checks: Checks, scheduler: Scheduler, clock: Clock) -> dict[str, Page]:
    """What is served, by path."""
    from pyscheduler.shell import health
    from pyscheduler.shell.http import json_page, metrics_page
    from pyscheduler.shell.webserver import Answer

    context = scheduler.machine.context

    def queue(question: Question) -> dict[str, Any]:
        from pyscheduler.shell.dumps import Dumps

        return Dumps(context, clock).queue(question)

    def cache(question: Question) -> dict[str, Any]:
        from pyscheduler.shell.dumps import Dumps

        return Dumps(context, clock).cache(question)

    def resources(question: Question) -> Any:
        from pyscheduler.shell import pod_resources

        # A replica that only waits would tell the same again.
        return pod_resources.page(context.pods.values if scheduler.leads else tuple)(question)

    def reset(_: Question) -> Answer:
        scheduler.metrics.reset()
        return Answer(b"metrics reset\n")

    return {
        **health.pages(checks),
        "/metrics": metrics_page(lambda: scheduler.metrics.registry),
        "DELETE /metrics": reset,
        "/metrics/resources": resources,
        "/configz": json_page(lambda _: configz(scheduler.config)),
        "/debug/queue": json_page(queue),
        "/debug/cache": json_page(cache),
    }


def configz(config: LoadedConfig) -> Mapping[str, Any]:
    """The configuration with all its defaults, as kube-scheduler shows it; the keys of extenders are left out."""
    from pyscheduler.config.show import documents

    kube, ours = documents(config)
    for extender in kube.get("extenders", ()):
        if (extender.get("tlsConfig") or {}).get("keyData"):
            extender["tlsConfig"]["keyData"] = _HIDDEN
    return {"componentconfig": kube, "pyscheduler": ours}


async def serve(
    options: EndpointOptions, pages: Mapping[str, Page], calls: Connection, clock: Clock, stack: AsyncExitStack
) -> None:
    """Serve pages over HTTPS until the stack is left. ServerProblem, ConnectionProblem if that cannot be."""
    from pyscheduler.shell.allowed_paths import AllowedPaths
    from pyscheduler.shell.http import HttpServer
    from pyscheduler.shell.tls import Tls, TlsOptions

    try:
        allowed = AllowedPaths([p for p in options.authorization_always_allow_paths.split(",") if p])
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint="--authorization-always-allow-paths") from None
    tokens = await _reviewing(options.authentication_kubeconfig, calls, clock, stack)
    access = await _reviewing(options.authorization_kubeconfig, calls, clock, stack)

    def made() -> tuple[bytes, bytes]:
        from pyscheduler.shell.self_signed import make

        return make(options.bind_address, clock.wall())

    tls = Tls(
        TlsOptions(
            options.tls_cert_file,
            options.tls_private_key_file,
            options.cert_dir,
            options.tls_min_version,
            options.tls_cipher_suites,
        ),
        made,
        await _authorities(options, tokens, clock),
    )

    @cache
    def gate() -> Gate:
        from pyscheduler.shell.gate import Gate
        from pyscheduler.shell.reviews import Reviewer

        return Gate(Reviewer(tokens, access, clock), allowed)

    async def guard(question: Question, served: bool) -> Answer | None:
        # Probes come while the scheduler starts; what they need not know is loaded for whoever comes later.
        return None if allowed.let(question) else await gate().refusal(question, served)

    server = HttpServer(pages, guard, options.bind_address, options.secure_port, tls.context)
    await server.start()
    stack.push_async_callback(server.stop)


async def _reviewing(kubeconfig: Path | None, calls: Connection, clock: Clock, stack: AsyncExitStack) -> Connection:
    """A connection for reviews; nothing is sent before somebody asks for something."""
    from pyscheduler.shell.kube.credentials import load

    if kubeconfig is None:
        connection = calls.another(_REVIEWS)
    else:
        connection = Connection(await load(kubeconfig, clock), _REVIEWS, clock)
    stack.push_async_callback(connection.close)
    return connection


async def _authorities(options: EndpointOptions, tokens: Connection, clock: Clock) -> ClientAuthorities | None:
    """Who signs the certificates of clients. ServerProblem if that must be known and is not."""
    from pyscheduler.api import ApiError
    from pyscheduler.shell.client_ca import AuthoritiesOfCluster, AuthoritiesOfFile
    from pyscheduler.shell.http import ServerProblem

    if options.client_ca_file is not None:
        try:
            return AuthoritiesOfFile(options.client_ca_file)
        except (OSError, UnicodeDecodeError) as problem:
            raise ServerProblem(f"--client-ca-file {options.client_ca_file} cannot be read: {problem}") from None
    if options.authentication_skip_lookup:
        return None
    authorities = AuthoritiesOfCluster(tokens, clock)
    if not options.authentication_tolerate_lookup_failure:
        try:
            await authorities.read()
        except ApiError as problem:
            raise ServerProblem(
                f"cannot look up who signs clients' certificates: {problem}; name the file with --client-ca-file, "
                "or start without: --authentication-tolerate-lookup-failure=true"
            ) from None
    return authorities


def dump_on_signal(scheduler: Scheduler, clock: Clock) -> None:
    """Log what is in the queue and in the cache on SIGUSR2, as kube-scheduler does."""
    dumping: set[asyncio.Task[None]] = set()

    def dump() -> None:
        from pyscheduler.shell.dumps import Dumps

        if not dumping:
            task = asyncio.create_task(Dumps(scheduler.machine.context, clock).log())
            dumping.add(task)
            task.add_done_callback(dumping.discard)

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, dump)
