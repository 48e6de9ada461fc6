"""Front proxies: whoever shows one of their certificates says in headers on whose behalf it asks.

That is how an API server passes on what users ask of a server behind it, and kube-scheduler takes it
(--requestheader-*). A certificate of the proxies' authority names nobody by itself, so it has to be known which
authority has signed: what is told of a certificate here goes by the root of the chain that TLS has verified.
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
from pyscheduler.shell.serving.reviews import User
from pyscheduler.shell.serving.webserver import Request

_CERTIFICATES: Final = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def user_of(request: Request, clients: str, proxies: Proxies | None) -> User | None:
    """Whom the certificate names that came with a request, or on whose behalf a proxy asks; None if nobody.

    `clients` are the authorities of clients as PEM text.
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


def user_of_headers(request: Request, proxies: Proxies) -> User | None:
    """On whose behalf a proxy asks, by the headers that it has set; None if it says nobody."""
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


def _first(request: Request, headers: Iterable[str]) -> str:
    return next((value for header in headers for value in _all(request, header.lower().__eq__)), "")


def _all(request: Request, wanted: Callable[[str], bool]) -> list[str]:
    return [value for header, value in request.pairs if wanted(header) and value]


@lru_cache(maxsize=8)
def _signers(pem: str) -> frozenset[bytes]:
    """The certificates in a PEM text; what cannot be read is nobody's."""
    found = set()
    for text in _CERTIFICATES.findall(pem):
        try:
            found.add(ssl.PEM_cert_to_DER_cert(text))
        except ValueError:
            continue
    return frozenset(found)
