"""Kubernetes' library for URLs."""

from __future__ import annotations

from typing import Final

from pyscheduler.cel.functions.costs import fixed, traverse_first
from pyscheduler.cel.functions.registry import Overload
from pyscheduler.cel.types import BOOL, STRING, list_of, map_of
from pyscheduler.cel.url import URL, URL_TYPE, decode, parse_query, parse_url, request_uri_problem
from pyscheduler.cel.values import CelMap

_ONE: Final = fixed(1)


def _query(url: URL) -> CelMap:
    return CelMap({decode(key): tuple(map(decode, values)) for key, values in parse_query(url.query).items()})


def _accessor(name: str, part: str) -> tuple[Overload]:
    def accessor(url: URL) -> str:
        return decode(getattr(url, part))

    return (Overload(name, (URL_TYPE,), STRING, accessor, True, _ONE),)


URLS_LIBRARY: Final = {
    "url": (Overload("string_to_url", (STRING,), URL_TYPE, parse_url, cost=traverse_first),),
    "getScheme": _accessor("url_get_scheme", "scheme"),
    "getHost": _accessor("url_get_host", "host"),
    "getHostname": (
        Overload("url_get_hostname", (URL_TYPE,), STRING, lambda url: decode(url.split_host()[0]), True, _ONE),
    ),
    "getPort": (Overload("url_get_port", (URL_TYPE,), STRING, lambda url: decode(url.split_host()[1]), True, _ONE),),
    "getEscapedPath": (
        Overload("url_get_escaped_path", (URL_TYPE,), STRING, lambda url: decode(url.escaped_path()), True, _ONE),
    ),
    "getQuery": (Overload("url_get_query", (URL_TYPE,), map_of(STRING, list_of(STRING)), _query, True, _ONE),),
    "isURL": (Overload("is_url_string", (STRING,), BOOL, lambda text: request_uri_problem(text) is None),),
}
