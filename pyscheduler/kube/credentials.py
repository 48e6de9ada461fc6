"""API server address and credentials, from a kubeconfig or from the pod's service account.

kubernetes_asyncio handles the rare forms of credentials. The usual mistakes are checked here first: a missing, broken
or incomplete file gives one sentence with the place and the remedy.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from pyscheduler import logs
from pyscheduler.clock import Clock
from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.kube.kubeconfig import (
    NotInCluster,
    RestConfig,
    from_kubeconfig,
    in_cluster_config,
    in_cluster_namespace,
)
from pyscheduler.kube.tls_session_cache import SessionCachingContext

REREAD_AFTER: Final = 60.0
"""Seconds after which replaceable tokens (files, exec plugins, service accounts) are read again."""
DEADLINE: Final = Deadlines().credentials
"""Seconds that kubernetes_asyncio, including an exec plugin, may take to return credentials."""
_URLS: Final = ("http://", "https://")
_CLUSTER_FILES: Final = ("certificate-authority",)
_USER_FILES: Final = ("client-certificate", "client-key", "tokenFile")
_QUICK: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_log = logs.get("credentials")


class ConnectionProblem(Exception):
    """The API server cannot be used; the message is one line for the operator."""


class Credentials:
    """Server address and credentials. `described` names them in messages, e.g. `context dev of ~/.kube/config`."""

    def __init__(
        self, configuration: Any, described: str, clock: Clock, loader: Any = None, namespace: str = ""
    ) -> None:
        self._configuration = configuration
        self._loader = loader
        self._clock = clock
        self._read_at = clock.now()
        self.described = described
        self.namespace = namespace or "default"
        """Namespace of the context, or of the pod's service account, as kubectl uses it without --namespace."""
        self.host: str = configuration.host.rstrip("/")
        self.ssl = _ssl_context(configuration, described) if self.host.startswith("https:") else None
        self.server_hostname: str | None = getattr(configuration, "tls_server_name", None) or None
        self.proxy: str | None = getattr(configuration, "proxy", None) or _proxy_of_environment(self.host)
        is_static = isinstance(configuration, RestConfig) and configuration.token_file is None
        self.static_authorization: str | None = configuration.header if is_static else None
        """Authorization header that never changes; None if the token may be replaced, see `authorization`."""

    async def authorization(self) -> str:
        """Return the Authorization header, "" with a client certificate or without credentials. ConnectionProblem."""
        if self._loader is not None and self._clock.now() - self._read_at > REREAD_AFTER and self._may_change():
            await self._refresh()
        if isinstance(self._configuration, RestConfig):
            return self._configuration.header
        key = self._configuration.get_api_key_with_prefix("BearerToken")  # which may run an exec plugin
        return (await _await_loader(key, self.described) or "").rstrip()

    async def _refresh(self) -> None:
        """Read tokens again if possible; the current ones may still be valid."""
        try:
            await self.reread()
        except ConnectionProblem as problem:
            _log.warning("Cannot reload the credentials, keeping the current ones", problem)

    async def reread(self) -> None:
        """Read the tokens again, for example after a 401. ConnectionProblem."""
        self._read_at = self._clock.now()
        if self._loader is not None:
            await _await_loader(self._loader.load_and_set(self._configuration), self.described)

    def _may_change(self) -> bool:
        if isinstance(self._loader, RestConfig):
            return self._loader.token_file is not None
        user = getattr(self._loader, "_user", None)
        return user is not None and ("tokenFile" in user or hasattr(self._loader, "exec_plugin_expiry"))


async def load(kubeconfig: Path | None, clock: Clock, server: str = "", context: str = "") -> Credentials:
    """Load the credentials of a context of a kubeconfig, "" for its current one.

    Without `kubeconfig` it is the merged file of $KUBECONFIG, and without that the pod's service account is used.
    `server` overrides the address; without `kubeconfig` it is called without credentials, as in client-go.
    ConnectionProblem if there are none.
    """
    if server and not server.startswith(_URLS):
        raise ConnectionProblem(f"--master {server} is not a URL (https://…)")
    if kubeconfig is None and server:
        return _anonymous(server, clock)
    if kubeconfig is None:
        files = files_of_environment()
        if files and not any(file.exists() for file in files):
            missing = " and ".join(map(str, files))
            raise ConnectionProblem(f"$KUBECONFIG names {missing}, which does not exist; pass --kubeconfig FILE")
        if not files and context:
            raise ConnectionProblem(f"--context {context} needs a kubeconfig: pass --kubeconfig FILE or set KUBECONFIG")
        return await _of_files(files, clock, "", context) if files else _in_cluster(clock)
    return await _of_files((kubeconfig,), clock, server, context)


def files_of_environment(environment: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Return the files of $KUBECONFIG that exist, or all if none does; empty if it is not set."""
    named = tuple(Path(name) for name in environment.get("KUBECONFIG", "").split(os.pathsep) if name)
    return tuple(file for file in named if file.exists()) or named


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """Yield a folder for certificates, which Python loads from files only. ConnectionProblem if it cannot be made."""
    try:
        folder = TemporaryDirectory(prefix="pyscheduler-")
    except OSError as problem:
        raise ConnectionProblem(
            f"certificates need a writable temporary directory; free space, or set TMPDIR ({problem})"
        ) from None
    with folder as path:
        yield Path(path)


async def _of_files(files: tuple[Path, ...], clock: Clock, server: str, context: str) -> Credentials:
    """Load the credentials of a context of merged kubeconfigs."""
    named = os.pathsep.join(map(str, files))
    name, cluster, user, namespace = _read_context(files, context)
    cluster = {**cluster, "server": server or cluster["server"]}
    described = f"context {name} of {named}"
    with _temporary_folder() as folder:
        try:
            plain = from_kubeconfig(cluster, user, files[0].parent, folder)
        except Exception as problem:  # strange values lead to anything from AttributeError to binascii.Error
            raise _unreadable(described, problem) from None
        if plain is not None:
            return Credentials(plain, described, clock, plain, namespace)
    return await _with_library((named, name), described, clock, server, namespace)


def _anonymous(server: str, clock: Clock) -> Credentials:
    with _temporary_folder() as folder:
        plain = from_kubeconfig({"server": server}, {}, Path(), folder)
        return Credentials(plain, f"--master {server}", clock, plain)


def _in_cluster(clock: Clock) -> Credentials:
    try:
        configuration = in_cluster_config()
    except (NotInCluster, OSError) as problem:
        raise ConnectionProblem(
            f"no kubeconfig was given and this is not a pod of a cluster ({problem}); "
            "pass --kubeconfig FILE, or set KUBECONFIG or clientConnection.kubeconfig"
        ) from None
    return Credentials(configuration, "the pod's service account", clock, configuration, in_cluster_namespace())


async def _with_library(
    source: tuple[str, str], described: str, clock: Clock, server: str, namespace: str
) -> Credentials:
    """Load credentials that need an exec plugin or an auth provider."""
    from kubernetes_asyncio import client, config

    configuration = client.Configuration()
    kubeconfig, context = source
    loading = config.load_kube_config(kubeconfig, context, client_configuration=configuration, persist_config=False)
    loader = await _await_loader(loading, described)
    configuration.host = server or configuration.host
    return Credentials(configuration, described, clock, loader, namespace)


async def _await_loader(loading: Any, described: str) -> Any:
    """Await a loader of kubernetes_asyncio; turn any exception or timeout into a one-line ConnectionProblem."""
    try:
        async with asyncio.timeout(DEADLINE):
            return await loading
    except TimeoutError:
        raise _unreadable(described, TimeoutError(f"no answer within {DEADLINE:g} s")) from None
    except Exception as problem:  # the loader raises anything from KeyError to binascii.Error
        raise _unreadable(described, problem) from None


def _unreadable(described: str, problem: Exception) -> ConnectionProblem:
    return ConnectionProblem(f"cannot read the credentials of {described}: {_one_line(problem)}")


def _read_context(files: tuple[Path, ...], chosen: str = "") -> tuple[str, dict[str, Any], dict[str, Any], str]:
    """Return the context's name, its cluster, its user and its namespace, after checking that all parts exist.

    Without `chosen` it is the current context.
    """
    file = Path(os.pathsep.join(map(str, files)))
    content = _parse(file) if len(files) == 1 else _merged([(each, _parse(each)) for each in files])
    name = chosen or content.get("current-context")
    if not name:
        names = ", ".join(sorted(_named(content, "contexts"))) or "none"
        raise ConnectionProblem(
            f"kubeconfig {file} has no current-context; choose one (kubectl config use-context): {names}"
        )
    context = _entry(file, content, "context", str(name))
    cluster = _entry(file, content, "cluster", str(context.get("cluster") or ""))
    if not str(cluster.get("server") or "").startswith(_URLS):
        raise ConnectionProblem(f"kubeconfig {file}: cluster {context['cluster']!r} has no server URL (https://…)")
    user = _entry(file, content, "user", str(context["user"])) if context.get("user") else {}
    _check_files(file, cluster, _CLUSTER_FILES)
    _check_files(file, user, _USER_FILES)
    return str(name), cluster, user, str(context.get("namespace") or "")


def _merged(contents: Sequence[tuple[Path, Mapping[str, Any]]]) -> Mapping[str, Any]:
    """Return one kubeconfig as client-go merges several: the first one that sets a value or defines a name wins.

    Relative paths become absolute, because each starts at the folder of its own file.
    """
    merged: dict[str, Any] = {}
    for plural, files in (("contexts", ()), ("clusters", _CLUSTER_FILES), ("users", _USER_FILES)):
        entries: dict[str, Any] = {}
        for file, content in contents:
            for name, entry in _named(content, plural).items():
                entries.setdefault(name, _with_absolute_paths(entry, plural.removesuffix("s"), files, file))
        merged[plural] = list(entries.values())
    current = (content.get("current-context") for _, content in contents)
    return merged | {"current-context": next((name for name in current if name), "")}


def _with_absolute_paths(entry: dict[str, Any], what: str, keys: tuple[str, ...], file: Path) -> dict[str, Any]:
    section = entry.get(what)
    if not isinstance(section, dict):
        return entry  # reported if it is used
    paths = {key: str(file.absolute().parent / str(section[key])) for key in keys if section.get(key)}
    return {**entry, what: {**section, **paths}}


def _parse(file: Path) -> Mapping[str, Any]:
    try:
        content = _value(file.read_text())
    except FileNotFoundError:
        raise ConnectionProblem(f"kubeconfig {file} does not exist") from None
    except OSError as problem:
        raise ConnectionProblem(f"kubeconfig {file} cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise ConnectionProblem(f"kubeconfig {file} cannot be read: it is not text") from None
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
        return yaml.safe_load(text)  # its error messages are better


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
        # As in client-go, every certificate in the file is trusted, root or not.
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
    # urllib.request imports an HTTP client, which a start without proxies does not need.
    from urllib.request import getproxies, proxy_bypass

    url = urlsplit(host)
    name = url.hostname or ""
    return None if _is_loopback(name) or proxy_bypass(name) else getproxies().get(url.scheme)


def _is_loopback(name: str) -> bool:
    """Return True for this machine, which is never behind a proxy of the environment, as in Go."""
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def _one_line(problem: BaseException) -> str:
    return " ".join(str(problem).split()) or type(problem).__name__
