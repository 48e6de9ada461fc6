"""Who we are to the API server, from a kubeconfig or from the pod we run in.

kubernetes_asyncio knows the rarer forms of credentials; around it stands what a user meets first: a file that is
missing, broken or incomplete gives one sentence that names the place and says what to do.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.shell import logs
from pyscheduler.shell.clock import Clock
from pyscheduler.shell.kube.kubeconfig import NotInCluster, RestConfig, from_kubeconfig, in_cluster_config
from pyscheduler.shell.kube.tls_session_cache import SessionCachingContext

REREAD_AFTER: Final = 60.0
"""Seconds after which tokens that can change (files, exec plugins, service accounts) are read again."""
DEADLINE: Final = Deadlines().credentials
"""Seconds that kubernetes_asyncio, and an exec plugin behind it, may take to give credentials."""
_URLS: Final = ("http://", "https://")
_QUICK: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_log = logs.get("credentials")


class ConnectionProblem(Exception):
    """The API server cannot be used; the message is one line for the person who started the scheduler."""


class Credentials:
    """A server and how to talk to it. `described` is how messages call them, e.g. `context dev of ~/.kube/config`."""

    def __init__(self, configuration: Any, described: str, clock: Clock, loader: Any = None) -> None:
        self._configuration = configuration
        self._loader = loader
        self._clock = clock
        self._read_at = clock.now()
        self.described = described
        self.host: str = configuration.host.rstrip("/")
        self.ssl = _ssl_context(configuration, described) if self.host.startswith("https:") else None
        self.server_hostname: str | None = getattr(configuration, "tls_server_name", None) or None
        self.proxy: str | None = getattr(configuration, "proxy", None) or _proxy_of_environment(self.host)

    async def authorization(self) -> str:
        """The Authorization header, "" where a client certificate (or nothing) is used. ConnectionProblem."""
        if self._loader is not None and self._clock.now() - self._read_at > REREAD_AFTER and self._may_change():
            await self._refresh()
        key = self._configuration.get_api_key_with_prefix("BearerToken")
        if not isinstance(self._configuration, RestConfig):
            key = _quietly(key, self.described)  # which may run an exec plugin
        return (await key or "").rstrip()

    async def _refresh(self) -> None:
        """Read tokens again if that is possible; the present ones may still be good."""
        try:
            await self.reread()
        except ConnectionProblem as problem:
            _log.warning("Credentials could not be read again, keeping the present ones", problem)

    async def reread(self) -> None:
        """Read the tokens again, for example because the server has refused the present one. ConnectionProblem."""
        self._read_at = self._clock.now()
        if self._loader is not None:
            await _quietly(self._loader.load_and_set(self._configuration), self.described)

    def _may_change(self) -> bool:
        if isinstance(self._loader, RestConfig):
            return self._loader.token_file is not None
        user = getattr(self._loader, "_user", None)
        return user is not None and ("tokenFile" in user or hasattr(self._loader, "exec_plugin_expiry"))


async def load(kubeconfig: Path | None, clock: Clock, server: str = "") -> Credentials:
    """The credentials of a kubeconfig's current context, or without one those of the pod that we run in.

    `server` goes before the address of either; without a kubeconfig it is asked without credentials, as client-go does.
    ConnectionProblem if there are none.
    """
    if server and not server.startswith(_URLS):
        raise ConnectionProblem(f"--master {server} is no URL (https://…)")
    if kubeconfig is None:
        return _anonymous(server, clock) if server else _in_cluster(clock)
    name, cluster, user = _checked_context(kubeconfig)
    cluster = {**cluster, "server": server or cluster["server"]}
    described = f"context {name} of {kubeconfig}"
    with TemporaryDirectory(prefix="pyscheduler-") as folder:
        try:
            plain = from_kubeconfig(cluster, user, kubeconfig.parent, Path(folder))
        except Exception as problem:  # strange values lead to anything from AttributeError to binascii.Error
            raise _unreadable(described, problem) from None
        if plain is not None:
            return Credentials(plain, described, clock, plain)
    return await _with_library(kubeconfig, described, clock, server)


def _anonymous(server: str, clock: Clock) -> Credentials:
    with TemporaryDirectory(prefix="pyscheduler-") as folder:
        plain = from_kubeconfig({"server": server}, {}, Path(), Path(folder))
        return Credentials(plain, f"--master {server}", clock, plain)


def _in_cluster(clock: Clock) -> Credentials:
    try:
        configuration = in_cluster_config()
    except (NotInCluster, OSError) as problem:
        raise ConnectionProblem(
            f"no kubeconfig was given and this is not a pod of a cluster ({problem}); "
            "pass --kubeconfig FILE or set clientConnection.kubeconfig"
        ) from None
    return Credentials(configuration, "the pod's service account", clock, configuration)


async def _with_library(kubeconfig: Path, described: str, clock: Clock, server: str) -> Credentials:
    """Credentials that take an exec plugin or an auth provider."""
    from kubernetes_asyncio import client, config

    configuration = client.Configuration()
    loading = config.load_kube_config(str(kubeconfig), client_configuration=configuration, persist_config=False)
    loader = await _quietly(loading, described)
    configuration.host = server or configuration.host
    return Credentials(configuration, described, clock, loader)


async def _quietly(loading: Any, described: str) -> Any:
    """Await what kubernetes_asyncio loads. Whatever it raises on strange input becomes one line; so does a hang."""
    try:
        async with asyncio.timeout(DEADLINE):
            return await loading
    except TimeoutError:
        raise _unreadable(described, TimeoutError(f"no answer within {DEADLINE:g} s")) from None
    except Exception as problem:  # the loader raises anything from KeyError to binascii.Error
        raise _unreadable(described, problem) from None


def _unreadable(described: str, problem: Exception) -> ConnectionProblem:
    return ConnectionProblem(f"cannot read the credentials of {described}: {_one_line(problem)}")


def _checked_context(file: Path) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The current context's name, its cluster and its user, once everything it needs is known to be there."""
    content = _parsed(file)
    name = content.get("current-context")
    if not name:
        names = ", ".join(sorted(_named(content, "contexts"))) or "none"
        raise ConnectionProblem(
            f"kubeconfig {file} has no current-context; choose one (kubectl config use-context), it knows: {names}"
        )
    context = _entry(file, content, "context", str(name))
    cluster = _entry(file, content, "cluster", str(context.get("cluster") or ""))
    if not str(cluster.get("server") or "").startswith(_URLS):
        raise ConnectionProblem(f"kubeconfig {file}: cluster {context['cluster']!r} has no server URL (https://…)")
    user = _entry(file, content, "user", str(context["user"])) if context.get("user") else {}
    _check_files(file, cluster, ("certificate-authority",))
    _check_files(file, user, ("client-certificate", "client-key", "tokenFile"))
    return str(name), cluster, user


def _parsed(file: Path) -> Mapping[str, Any]:
    try:
        content = _value(file.read_text())
    except FileNotFoundError:
        raise ConnectionProblem(f"kubeconfig {file} does not exist") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise ConnectionProblem(f"kubeconfig {file} cannot be read: {_one_line(problem)}") from None
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        reason = getattr(problem, "problem", None) or "it cannot be parsed"
        raise ConnectionProblem(f"kubeconfig {file} is not YAML{where}: {reason}") from None
    if not isinstance(content, dict):
        raise ConnectionProblem(f"kubeconfig {file} is not a kubeconfig: it should hold clusters, users and contexts")
    return content


def _value(text: str) -> Any:
    try:
        return yaml.load(text, Loader=_QUICK)
    except yaml.YAMLError:
        return yaml.safe_load(text)  # which says better what is wrong


def _named(content: Mapping[str, Any], plural: str) -> dict[str, Any]:
    entries = content.get(plural)
    return {str(e["name"]): e for e in entries if isinstance(e, dict) and "name" in e} if entries else {}


def _entry(file: Path, content: Mapping[str, Any], what: str, name: str) -> dict[str, Any]:
    found = _named(content, f"{what}s").get(name, {}).get(what)
    if not isinstance(found, dict):
        raise ConnectionProblem(f"kubeconfig {file} names the {what} {name!r}, which it does not define")
    return found


def _check_files(file: Path, section: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    for key in keys:
        named = section.get(key)
        if named and not section.get(f"{key}-data") and not (file.parent / str(named)).is_file():
            raise ConnectionProblem(f"kubeconfig {file} names the {key} {named}, which does not exist")


def _ssl_context(configuration: Any, described: str) -> ssl.SSLContext:
    try:
        context = SessionCachingContext(ssl.PROTOCOL_TLS_CLIENT)
        if configuration.ssl_ca_cert:
            context.load_verify_locations(configuration.ssl_ca_cert)
        else:
            context.load_default_certs()
        # As client-go has it, whatever is in the file is trusted, be it a root or not.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file)
    except (OSError, ssl.SSLError) as problem:
        raise ConnectionProblem(f"the certificates of {described} cannot be used: {_one_line(problem)}") from None
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _proxy_of_environment(host: str) -> str | None:
    if sys.platform == "linux" and not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    # It brings a whole HTTP client along, and a start without proxies has no use for it.
    from urllib.request import getproxies, proxy_bypass

    url = urlsplit(host)
    return None if proxy_bypass(url.hostname or "") else getproxies().get(url.scheme)


def _one_line(problem: BaseException) -> str:
    return " ".join(str(problem).split()) or type(problem).__name__
