"""URLs with the checks and error texts of Go's net/url.

Texts are handled as bytes, one character for each, because an escape may stand for any byte. Results that are no UTF-8
have surrogates in their place, as Python's "surrogateescape" has them.
"""

from __future__ import annotations

import re
import string
from typing import ClassVar, Final

from pyscheduler.cel.go_text import quote, utf8
from pyscheduler.cel.limits import spend
from pyscheduler.cel.network import AddressError, parse_address
from pyscheduler.cel.types import CelType, struct
from pyscheduler.cel.values import NO_SUCH_OVERLOAD, CelError, Opaque, Value

URL_TYPE: Final = struct("kubernetes.URL")
_UNRESERVED: Final = f"{string.ascii_letters}{string.digits}-_.~"
_HOST: Final = frozenset(_UNRESERVED + "!$&'()*+,;=:[]<>\"")
_PATH: Final = frozenset(_UNRESERVED + "$&+,/:;=@")
_USER: Final = frozenset(_UNRESERVED + "$&+,;=")
_FRAGMENT: Final = frozenset(_UNRESERVED + "$&+,/:;=?@!()*")
_VALID_IN_PATH: Final = _PATH | frozenset("!'()*[]%")
_VALID_IN_FRAGMENT: Final = _FRAGMENT | frozenset("'[]%")
_USER_INFO: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*\Z")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*|):")
_PORT: Final = re.compile(r"(:[0-9]*)?\Z")
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_MAX_PARAMETERS: Final = 10_000
_ASCII: Final = 0x80


class UrlError(Exception):
    """A URL is invalid; the text is net/url's."""


class URL(Opaque):
    """A parsed URL."""

    __slots__ = (
        "force_query",
        "fragment",
        "host",
        "omit_host",
        "opaque",
        "path",
        "query",
        "raw_fragment",
        "raw_path",
        "scheme",
        "user",
    )
    TYPE: ClassVar[CelType] = URL_TYPE

    def __init__(self) -> None:
        self.scheme = self.opaque = self.host = self.path = self.raw_path = self.query = ""
        self.fragment = self.raw_fragment = ""
        self.user: tuple[str, str | None] | None = None
        self.force_query = self.omit_host = False

    def escaped_path(self) -> str:
        """Return the path as it was written if that is valid, otherwise with the default escapes."""
        return "*" if self.path == "*" else _escaped(self.path, self.raw_path, _PATH, _VALID_IN_PATH)

    def split_host(self) -> tuple[str, str]:
        """Return the host without brackets, and the port."""
        host, colon, port = self.host.rpartition(":")
        if not colon or not _PORT.match(colon + port):
            host, port = self.host, ""
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        return host, port

    def text(self) -> str:
        """Return the URL as one text, one character for each byte."""
        parts = [f"{self.scheme}:"] if self.scheme else []
        if self.opaque:
            parts.append(self.opaque)
        else:
            parts += self._hierarchy()
        if self.force_query or self.query:
            parts.append(f"?{self.query}")
        if self.fragment:
            fragment = _escaped(self.fragment, self.raw_fragment, _FRAGMENT, _VALID_IN_FRAGMENT)
            parts.append(f"#{fragment}")
        return "".join(parts)

    def _hierarchy(self) -> list[str]:
        parts = []
        if (self.scheme or self.host or self.user) and not (self.omit_host and not self.host and not self.user):
            if self.host or self.path or self.user:
                parts.append("//")
            if self.user:
                name, password = self.user
                parts.append(_escape(name, _USER))
                parts.append("" if password is None else f":{_escape(password, _USER)}")
                parts.append("@")
            parts.append(_escape(self.host, _HOST))
        path = self.escaped_path()
        if path and path[0] != "/" and self.host:
            parts.append("/")
        elif not self.scheme and not "".join(parts) and ":" in path.split("/", 1)[0]:
            parts.append("./")
        return [*parts, path]

    def equal(self, other: Value) -> bool | CelError:
        """Return True for the same text; an error for a value of another type."""
        return other == self if isinstance(other, URL) else NO_SUCH_OVERLOAD

    def __eq__(self, other: object) -> bool:
        return isinstance(other, URL) and other.text() == self.text()

    def __hash__(self) -> int:
        return hash(self.text())

    def __repr__(self) -> str:
        return decode(self.text())


def parse_url(text: str) -> URL | CelError:
    """Return the URL, which must be absolute or begin with a slash."""
    prefix = "URL parse error during conversion from string: parse "
    try:
        _parse(encode(text), via_request=True)
    except UrlError as error:
        return CelError(f"{prefix}{quote(text)}: {error}")
    rest, _, fragment = text.partition("#")
    try:
        url = _parse(encode(rest), via_request=False)
    except UrlError as error:
        return CelError(f"{prefix}{quote(rest)}: {error}")
    try:
        url.raw_fragment = encode(fragment)
        url.fragment = _unescape(url.raw_fragment)
    except UrlError as error:
        return CelError(f"{prefix}{quote(text)}: {error}")
    if url.raw_fragment == _escape(url.fragment, _FRAGMENT):
        url.raw_fragment = ""
    return url


def request_uri_problem(text: str) -> str | None:
    """Return the error of Go's `ParseRequestURI`, None for a valid URL."""
    try:
        _parse(encode(text), via_request=True)
    except UrlError as error:
        return f"parse {quote(text)}: {error}"
    return None


def parse_query(query: str) -> dict[str, list[str]]:
    """Return the parameters of a query; invalid ones are left out."""
    result: dict[str, list[str]] = {}
    if query.count("&") + 1 > _MAX_PARAMETERS:
        return result
    for part in query.split("&"):
        if not part or ";" in part:
            continue
        key, _, value = part.partition("=")
        try:
            key, value = (_unescape(item.replace("+", " ")) for item in (key, value))
        except UrlError:
            continue
        result.setdefault(key, []).append(value)
    return result


def encode(text: str) -> str:
    """Return one character for each byte of a text."""
    return utf8(text).decode("latin-1")


def decode(data: str) -> str:
    """Return the text of bytes, one character each."""
    return data.encode("latin-1").decode("utf-8", "surrogateescape")


def _parse(text: str, *, via_request: bool) -> URL:
    spend(len(text))
    if _CONTROL.search(text):
        raise UrlError("net/url: invalid control character in URL")
    if not text and via_request:
        raise UrlError("empty url")
    url = URL()
    if text == "*":
        url.path = "*"
        return url
    rest = _parse_scheme(url, text)
    if rest.endswith("?") and rest.count("?") == 1:
        url.force_query = True
        rest = rest[:-1]
    else:
        rest, _, url.query = rest.partition("?")
    if not rest.startswith("/"):
        if url.scheme:
            url.opaque = rest
            return url
        if via_request:
            raise UrlError("invalid URI for request")
        if ":" in rest.split("/", 1)[0]:
            raise UrlError("first path segment in URL cannot contain colon")
    if rest.startswith("//") and (url.scheme or (not via_request and not rest.startswith("///"))):
        authority, slash, rest = rest[2:].partition("/")
        rest = slash + rest
        _parse_authority(url, authority)
    elif url.scheme and rest.startswith("/"):
        url.omit_host = True
    url.path = _unescape(rest)
    if _escape(url.path, _PATH) != rest:
        url.raw_path = rest
    return url


def _parse_scheme(url: URL, text: str) -> str:
    found = _SCHEME.match(text)
    if not found:
        return text
    if not found[1]:
        raise UrlError("missing protocol scheme")
    url.scheme = found[1].lower()
    return text[found.end() :]


def _parse_authority(url: URL, authority: str) -> None:
    user, at, host = authority.rpartition("@")
    url.host = _parse_host(url.scheme, host)
    if not at:
        return
    if not _USER_INFO.match(user):
        raise UrlError("net/url: invalid userinfo")
    name, colon, password = user.partition(":")
    url.user = _unescape(name), _unescape(password) if colon else None


def _parse_host(scheme: str, host: str) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        raise UrlError("invalid IP-literal")
    if bracket == 0:
        return _parse_literal(host)
    colon = host.find(":")
    if colon >= 0:
        if scheme not in ("http", "https"):
            colon = host.rfind(":")
        _check_port(host[colon:])
    return _unescape_host(host, _HOST)


def _check_port(text: str) -> None:
    if not _PORT.match(text):
        raise UrlError(f"invalid port {quote(decode(text))} after host")


def _parse_literal(host: str) -> str:
    end = host.rfind("]")
    if end < 0:
        raise UrlError("missing ']' in host")
    _check_port(host[end + 1 :])
    port = _unescape_host(host[end + 1 :], _HOST)
    name = host[1:end]
    zone = name.find("%25")
    if zone >= 0:
        name = _unescape_host(name[:zone], _HOST) + _unescape_zone(name[zone:])
    else:
        name = _unescape_host(name, _HOST)
    try:
        ip, _ = parse_address(decode(name))
    except AddressError as error:
        raise UrlError(f"invalid host: {error}") from error
    if ip.bits == 32:
        raise UrlError("invalid IP-literal")
    return f"[{name}]{port}"


def _unescape(text: str) -> str:
    """Replace the escapes of a path, user, fragment or query."""
    _check(text, host=None)
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def _unescape_host(text: str, allowed: frozenset[str]) -> str:
    _check(text, host=allowed)
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def _unescape_zone(text: str) -> str:
    _check(text, host=_HOST, zone=True)
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def _check(text: str, host: frozenset[str] | None, zone: bool = False) -> None:
    """Raise UrlError for a malformed escape; in a host also for one of an ASCII character, and for other characters."""
    position = 0
    while position < len(text):
        character = text[position]
        if character != "%":
            if host is not None and ord(character) < _ASCII and character not in host:
                raise UrlError(f"invalid character {quote(character)} in host name")
            position += 1
            continue
        found = _ESCAPE.match(text, position)
        if not found:
            raise UrlError(f"invalid URL escape {quote(decode(text[position : position + 3]))}")
        value = int(found[1], 16)
        if host is not None and found[0] != "%25":
            is_refused = chr(value) not in host and value != ord(" ") if zone else value < _ASCII
            if is_refused:
                raise UrlError(f"invalid URL escape {quote(found[0])}")
        position += 3


def _escape(text: str, allowed: frozenset[str]) -> str:
    return "".join(c if c in allowed else f"%{ord(c):02X}" for c in text)


def _escaped(text: str, raw: str, allowed: frozenset[str], valid: frozenset[str]) -> str:
    return raw if raw and valid.issuperset(raw) else _escape(text, allowed)
