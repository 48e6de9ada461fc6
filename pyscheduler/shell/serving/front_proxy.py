"""Front proxies: clients with a certificate of a proxy CA name the user in request headers.

An API server forwards users' requests this way, and kube-scheduler accepts it (--requestheader-*). A certificate of the
proxy CA is not trusted as a user certificate, so the signer must be known: it is the root of the chain that TLS
verified.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from pyscheduler.shell.serving.authorization import named
from pyscheduler.shell.serving.client_ca import Proxies
from pyscheduler.shell.serving.messages import ServerRequest
from pyscheduler.shell.serving.reviews import User

_CERTIFICATES: Final = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def user_of(request: ServerRequest, clients: str, proxies: Proxies | None) -> User | None:
    """Return the user of a request's certificate, or the user that a front proxy names; None without either.

    `clients` are the CAs of clients as PEM text.
    """
    if request.subject is None:
        return None
    if proxies is None:
        return named(request.subject)
    if request.signer in _signers(proxies.authorities):
        proxy = named(request.subject)
        if proxy is not None and (not proxies.names or proxy.name in proxies.names):
            user = user_of_headers(request, proxies)
            if user is not None:
                return user
    return named(request.subject) if request.signer in _signers(clients) else None


def user_of_headers(request: ServerRequest, proxies: Proxies) -> User | None:
    """Return the user in the headers that a front proxy has set; None without a user name."""
    name = _first(request, proxies.user_headers)
    if not name:
        return None
    groups = tuple(value for header in proxies.group_headers for value in _all(request, header.lower().__eq__))
    extra: dict[str, tuple[str, ...]] = {}
    for prefix in proxies.extra_prefixes:
        for header in dict.fromkeys(header for header, _ in request.pairs if header.startswith(prefix.lower())):
            key = unquote(header[len(prefix) :])
            extra[key] = (*extra.get(key, ()), *_all(request, header.__eq__))
    return User(name, _first(request, proxies.uid_headers), groups, extra).authenticated()


def _first(request: ServerRequest, headers: Iterable[str]) -> str:
    return next((value for header in headers for value in _all(request, header.lower().__eq__)), "")


def _all(request: ServerRequest, wanted: Callable[[str], bool]) -> list[str]:
    return [value for header, value in request.pairs if wanted(header) and value]


@lru_cache(maxsize=8)
def _signers(pem: str) -> frozenset[bytes]:
    """Return the DER certificates in a PEM text; malformed ones are skipped."""
    found = set()
    for text in _CERTIFICATES.findall(pem):
        try:
            found.add(ssl.PEM_cert_to_DER_cert(text))
        except ValueError:
            continue
    return frozenset(found)
