"""HTTPS endpoints of `run`: kube-scheduler's flags, the pages served, and their authorization."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from pyscheduler.cli.options import FOLDER, PORT, READABLE, duration, switch
from pyscheduler.cli.sections import option
from pyscheduler.clock import Clock
from pyscheduler.config.durations import parse_duration
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.kube.connection import Connection, ConnectionOptions
from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.shell.scheduler import Scheduler
from pyscheduler.shell.serving.health import Checks
from pyscheduler.shell.threads import LoopThread

if TYPE_CHECKING:
    from pyscheduler.api.pod import Pod
    from pyscheduler.shell.serving.allowed_paths import AllowedPaths
    from pyscheduler.shell.serving.authorization import AuthorizationFilter
    from pyscheduler.shell.serving.client_ca import ConfigMapAuthorities, FileAuthorities, TrustedAuthorities
    from pyscheduler.shell.serving.http import AsyncPage, Page
    from pyscheduler.shell.serving.messages import ServerRequest, ServerResponse

Flags = Callable[[], Mapping[str, Any]]
"""Function that returns the value of every flag by name."""
_HIDDEN: Final = "(not shown)"
_SECURE_SERVING: Final = "Secure serving"
_AUTHENTICATION: Final = "Authentication"
_AUTHORIZATION: Final = "Authorization"
_PROFILES: Final = ("cmdline", "goroutine", "profile")
_REVIEWS: Final = ConnectionOptions(connections=2, qps=20, burst=40, deadlines=Deadlines().within(10.0))
"""Separate connections with a low rate, so that reviews never delay bindings or load the API server."""


class EndpointOptions(msgspec.Struct, frozen=True):
    """Values of kube-scheduler's endpoint flags, by their names."""

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
    authentication_token_webhook_cache_ttl: str
    requestheader_client_ca_file: Path | None
    requestheader_allowed_names: tuple[str, ...]
    requestheader_username_headers: tuple[str, ...]
    requestheader_uid_headers: tuple[str, ...]
    requestheader_group_headers: tuple[str, ...]
    requestheader_extra_headers_prefix: tuple[str, ...]
    authorization_kubeconfig: Path | None
    authorization_always_allow_paths: str
    authorization_webhook_cache_authorized_ttl: str
    authorization_webhook_cache_unauthorized_ttl: str

    @property
    def review_ttls(self) -> tuple[float, float, float]:
        """Seconds for which token reviews, allowed access reviews and denied access reviews are cached."""
        return (
            parse_duration(self.authentication_token_webhook_cache_ttl),
            parse_duration(self.authorization_webhook_cache_authorized_ttl),
            parse_duration(self.authorization_webhook_cache_unauthorized_ttl),
        )


def _checked_by(parse: Callable[[str], object]) -> Callable[..., str]:
    """Return a callback that rejects what `parse` rejects; the default is not parsed, to save the start the imports."""

    def check(context: click.Context, parameter: click.Parameter, text: str) -> str:
        if text != parameter.get_default(context):
            from pyscheduler.shell.serving.http import ServerProblem

            try:
                parse(text)
            except (ServerProblem, ValueError) as problem:
                raise click.BadParameter(str(problem)) from None
        return text

    return check


def _address(_: click.Context, __: click.Parameter, text: str) -> str:
    if not re.fullmatch(r"[0-9A-Fa-f:.]+(%\w+)?|[A-Za-z0-9][A-Za-z0-9.-]*", text):
        raise click.BadParameter(f"{text!r} is not an address such as 127.0.0.1 or ::")
    return text


def _minimum_version(text: str) -> object:
    from pyscheduler.shell.serving.tls import minimum_version

    return minimum_version(text)


def _cipher_suites(text: str) -> object:
    from pyscheduler.shell.serving.tls import openssl_ciphers

    return openssl_ciphers(text)


def _allowed_paths(text: str) -> AllowedPaths:
    from pyscheduler.shell.serving.allowed_paths import AllowedPaths

    return AllowedPaths([path for path in text.split(",") if path])


def _ttl_option(flag: str, section: str, what: str) -> Callable[..., Any]:
    text = f"How long to cache {what}."
    return option(flag, section=section, default="10s", callback=duration, metavar="D", help=text)


def _list(flag: str, *default: str, **more: Any) -> Callable[..., Any]:
    """Return a list option, with commas or repeated."""

    def split(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(word.strip() for value in values for word in value.split(",") if word.strip())

    more.update(multiple=True, default=default, callback=split, metavar="NAME,...")
    return option(flag, section=_AUTHENTICATION, **more)


_OPTIONS: Final = (
    option(
        "--bind-address",
        section=_SECURE_SERVING,
        default="0.0.0.0",
        callback=_address,
        metavar="A",
        help="Address of the health, metrics and debug endpoints.",
    ),
    option(
        "--secure-port",
        section=_SECURE_SERVING,
        type=PORT,
        default=10259,
        metavar="P",
        help="HTTPS port of the endpoints; 0 disables them.",
    ),
    option(
        "--cert-dir",
        section=_SECURE_SERVING,
        type=FOLDER,
        metavar="DIR",
        help="Directory for the self-signed certificate pyscheduler.crt.",
    ),
    option(
        "--tls-cert-file",
        section=_SECURE_SERVING,
        type=READABLE,
        metavar="FILE",
        help="Serving certificate (default: a self-signed one).",
    ),
    option(
        "--tls-private-key-file",
        section=_SECURE_SERVING,
        type=READABLE,
        metavar="FILE",
        help="Private key of the serving certificate.",
    ),
    option(
        "--tls-min-version",
        section=_SECURE_SERVING,
        default="",
        callback=_checked_by(_minimum_version),
        metavar="V",
        help="VersionTLS12 (default) or VersionTLS13.",
    ),
    option(
        "--tls-cipher-suites",
        section=_SECURE_SERVING,
        default="",
        callback=_checked_by(_cipher_suites),
        metavar="NAME,...",
        help="Cipher suites for TLS 1.2.",
    ),
    option(
        "--client-ca-file",
        section=_AUTHENTICATION,
        type=READABLE,
        metavar="FILE",
        help="CA of client certificates (default: the cluster's client CA).",
    ),
    option(
        "--authentication-kubeconfig",
        section=_AUTHENTICATION,
        type=READABLE,
        metavar="FILE",
        help="Kubeconfig of the cluster that reviews tokens (default: --kubeconfig).",
    ),
    switch(
        "--authentication-skip-lookup",
        section=_AUTHENTICATION,
        default=False,
        metavar="[=BOOL]",
        help="Do not read the CA of client certificates from the cluster.",
    ),
    switch(
        "--authentication-tolerate-lookup-failure",
        section=_AUTHENTICATION,
        default=True,
        metavar="[=BOOL]",
        help="Start without the cluster's client CA if it cannot be read.",
    ),
    option(
        "--requestheader-client-ca-file",
        section=_AUTHENTICATION,
        type=READABLE,
        metavar="FILE",
        help="CA of front proxies' certificates (default: that of the cluster).",
    ),
    _list("--requestheader-allowed-names", help="Common names of front proxies (default: any)."),
    _list(
        "--requestheader-username-headers", "x-remote-user", help="Headers with the user name, set by front proxies."
    ),
    _list("--requestheader-uid-headers", hidden=True),
    _list("--requestheader-group-headers", "x-remote-group", hidden=True),
    _list("--requestheader-extra-headers-prefix", "x-remote-extra-", hidden=True),
    option(
        "--authorization-kubeconfig",
        section=_AUTHORIZATION,
        type=READABLE,
        metavar="FILE",
        help="Kubeconfig of the cluster that reviews access (default: --kubeconfig).",
    ),
    option(
        "--authorization-always-allow-paths",
        section=_AUTHORIZATION,
        default="/healthz,/readyz,/livez",
        callback=_checked_by(_allowed_paths),
        metavar="PATH,...",
        help="Paths served without authorization; a trailing * matches any suffix.",
    ),
    _ttl_option("--authentication-token-webhook-cache-ttl", _AUTHENTICATION, "token reviews"),
    _ttl_option("--authorization-webhook-cache-authorized-ttl", _AUTHORIZATION, "allowed access reviews"),
    _ttl_option("--authorization-webhook-cache-unauthorized-ttl", _AUTHORIZATION, "denied access reviews"),
)


def options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags to a command, which receives them as `serving`."""

    @wraps(command)
    def with_endpoints(**values: Any) -> None:
        own = {name: values.pop(name) for name in EndpointOptions.__struct_fields__}
        command(serving=EndpointOptions(**own), **values)

    decorated: Callable[..., None] = with_endpoints
    for add in reversed(_OPTIONS):
        decorated = add(decorated)
    return decorated


def pages(checks: Checks, scheduler: Scheduler, clock: Clock, flags: Flags) -> dict[str, Page | AsyncPage]:
    """Return the pages by path; `flags` returns the flags of the process.

    Call it on the scheduler's event loop; the pages are rendered in another thread.
    """
    from pyscheduler.shell.serving import health
    from pyscheduler.shell.serving.http import json_page, json_response
    from pyscheduler.shell.serving.main_loop import MainLoop, MetricsPage
    from pyscheduler.shell.serving.messages import ServerResponse

    main, context = MainLoop(asyncio.get_running_loop()), scheduler.machine.context

    def queue(request: ServerRequest) -> dict[str, Any]:
        from pyscheduler.shell.serving.dumps import Dumps

        return Dumps(context, clock).queue(request)

    def cache(request: ServerRequest) -> dict[str, Any]:
        from pyscheduler.shell.serving.dumps import Dumps

        return Dumps(context, clock).cache(request)

    def pods(_: ServerRequest) -> list[Pod]:
        # Only the leader reports them, or each replica would report the same.
        return list(context.pods.values()) if scheduler.leads else []

    def resources(pods: list[Pod]) -> ServerResponse:
        from pyscheduler.shell.serving import pod_resources

        return pod_resources.page(pods)

    def reset(_: ServerRequest) -> ServerResponse:
        scheduler.metrics.reset()
        return ServerResponse(b"metrics reset\n")

    served: dict[str, Page | AsyncPage] = {
        **health.pages(checks),
        "/metrics": MetricsPage(scheduler.metrics, main),
        "DELETE /metrics": main.page(reset, _identity),
        "/metrics/resources": main.page(pods, resources),
        "/configz": json_page(lambda _: configz(scheduler.config)),
        "/debug/queue": main.page(queue, json_response),
        "/debug/cache": main.page(cache, json_response),
    }
    if scheduler.config.configuration.enable_profiling:
        served.update(_profiles(main.loop))
    return served | _zpages([*served, "/flagz", "/statusz"], clock, flags, scheduler.config.gates.version)


def _identity(response: ServerResponse) -> ServerResponse:
    return response


def _profiles(loop: asyncio.AbstractEventLoop) -> Mapping[str, Page]:
    @cache
    def profiler_pages() -> Mapping[str, Page]:
        from pyscheduler.shell.serving.profiling import Profiler

        return Profiler(loop).pages()

    def page(path: str) -> Page:
        return lambda request: profiler_pages()[path](request)

    return {path: page(path) for path in ("/debug/pprof/", *(f"/debug/pprof/{name}" for name in _PROFILES))}


def _zpages(paths: Sequence[str], clock: Clock, flags: Flags, emulated: str) -> dict[str, Page]:
    began = clock.wall()

    def flagz(request: ServerRequest) -> ServerResponse:
        from pyscheduler.shell.serving import zpages

        return zpages.flagz(flags)(request)

    def statusz(request: ServerRequest) -> ServerResponse:
        from pyscheduler.shell.serving import zpages

        return zpages.statusz(paths, began, clock.wall, emulated)(request)

    return {"/flagz": flagz, "/statusz": statusz}


def configz(config: LoadedConfig) -> Mapping[str, Any]:
    """Return the configuration with all defaults, as kube-scheduler's /configz; extenders' private keys are hidden."""
    from pyscheduler.config.show import documents

    kube, ours = documents(config)
    for extender in kube.get("extenders", ()):
        if (extender.get("tlsConfig") or {}).get("keyData"):
            extender["tlsConfig"]["keyData"] = _HIDDEN
    return {"componentconfig": kube, "pyscheduler": ours}


@asynccontextmanager
async def serve_in_thread(
    options: EndpointOptions, pages: Mapping[str, Page | AsyncPage], calls: Connection, clock: Clock
) -> AsyncIterator[int]:
    """Serve pages over HTTPS from a separate thread, so that they respond while the caller's loop is blocked.

    Yield the port. ServerProblem, ConnectionProblem.
    """
    async with LoopThread("endpoints") as thread:
        yield await thread.run(partial(serve, options, pages, calls, clock, thread.resources))


async def serve(
    options: EndpointOptions,
    pages: Mapping[str, Page | AsyncPage],
    calls: Connection,
    clock: Clock,
    stack: AsyncExitStack,
) -> int:
    """Serve pages over HTTPS until the stack is closed; return the port. ServerProblem, ConnectionProblem."""
    from pyscheduler.shell.serving.http import HttpServer
    from pyscheduler.shell.serving.tls import Tls, TlsOptions

    allowed = _allowed_paths(options.authorization_always_allow_paths)
    tokens = await _review_connection(options.authentication_kubeconfig, calls, clock, stack)
    access = await _review_connection(options.authorization_kubeconfig, calls, clock, stack)

    def make_certificate() -> tuple[bytes, bytes]:
        from pyscheduler.shell.serving.self_signed import make

        return make(options.bind_address, clock.wall())

    trusted = await _authorities(options, tokens, clock)
    tls = Tls(
        TlsOptions(
            options.tls_cert_file,
            options.tls_private_key_file,
            options.cert_dir,
            options.tls_min_version,
            options.tls_cipher_suites,
        ),
        make_certificate,
        trusted,
    )

    @cache
    def authorization_filter() -> AuthorizationFilter:
        from pyscheduler.shell.serving.authorization import AuthorizationFilter
        from pyscheduler.shell.serving.front_proxy import user_of
        from pyscheduler.shell.serving.reviews import Reviewer, Seconds

        reviewer = Reviewer(tokens, access, clock, Seconds(*options.review_ttls))
        return AuthorizationFilter(reviewer, allowed, lambda request: user_of(request, *trusted.known))

    async def authorize(request: ServerRequest, served: bool) -> ServerResponse | None:
        # Probes arrive while the scheduler starts; the filter is imported with the first request that needs it.
        return None if allowed.is_exempt(request) else await authorization_filter().refusal(request, served)

    server = HttpServer(pages, authorize, options.bind_address, options.secure_port, tls.context)
    await server.start()
    stack.push_async_callback(server.stop)
    return server.port


async def _review_connection(
    kubeconfig: Path | None, calls: Connection, clock: Clock, stack: AsyncExitStack
) -> Connection:
    """Return a connection for reviews; it connects with the first request."""
    from pyscheduler.kube.credentials import load

    if kubeconfig is None:
        connection = calls.new_connection(_REVIEWS)
    else:
        connection = Connection(await load(kubeconfig, clock), _REVIEWS, clock)
    stack.push_async_callback(connection.close)
    return connection


async def _authorities(options: EndpointOptions, tokens: Connection, clock: Clock) -> TrustedAuthorities:
    """Return the CAs of clients and front proxies. ServerProblem if a required one cannot be read."""
    from pyscheduler.shell.serving.client_ca import Proxies, TrustedAuthorities

    clients = _file("--client-ca-file", options.client_ca_file)
    signer = _file("--requestheader-client-ca-file", options.requestheader_client_ca_file)
    proxies = Proxies(
        names=options.requestheader_allowed_names,
        user_headers=options.requestheader_username_headers,
        uid_headers=options.requestheader_uid_headers,
        group_headers=options.requestheader_group_headers,
        extra_prefixes=options.requestheader_extra_headers_prefix,
    )
    lookup = None
    if not options.authentication_skip_lookup and (clients is None or signer is None):
        lookup = await _lookup(options, tokens, clock)
    return TrustedAuthorities(clients or lookup, lookup, None if signer is None else (signer, proxies))


def _file(flag: str, file: Path | None) -> FileAuthorities | None:
    from pyscheduler.shell.serving.client_ca import FileAuthorities
    from pyscheduler.shell.serving.http import ServerProblem

    try:
        return None if file is None else FileAuthorities(file, flag)
    except (OSError, UnicodeDecodeError) as problem:
        raise ServerProblem(f"{flag} {file} cannot be read: {getattr(problem, 'strerror', None) or problem}") from None


async def _lookup(options: EndpointOptions, tokens: Connection, clock: Clock) -> ConfigMapAuthorities:
    from pyscheduler.api import ApiError
    from pyscheduler.shell.serving.client_ca import ConfigMapAuthorities
    from pyscheduler.shell.serving.http import ServerProblem

    authorities = ConfigMapAuthorities(tokens, clock)
    if not options.authentication_tolerate_lookup_failure:
        try:
            await authorities.read()
        except ApiError as problem:
            raise ServerProblem(
                f"cannot read the cluster's client CA: {problem}; set --client-ca-file, "
                "or start without it: --authentication-tolerate-lookup-failure=true"
            ) from None
    return authorities


def dump_on_signal(scheduler: Scheduler, clock: Clock) -> None:
    """Log the queue and the cache on SIGUSR2, as kube-scheduler does."""
    dumping: set[asyncio.Task[None]] = set()

    def dump() -> None:
        from pyscheduler.shell.serving.dumps import Dumps

        if not dumping:
            task = asyncio.create_task(Dumps(scheduler.machine.context, clock).log())
            dumping.add(task)
            task.add_done_callback(dumping.discard)

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, dump)
