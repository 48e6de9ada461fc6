"""Kubernetes' libraries for IP addresses and networks."""

from __future__ import annotations

from typing import Final

from pyscheduler.cel.functions.costs import actual_size, fixed, traversal, traverse_first, traverse_first_twice
from pyscheduler.cel.functions.registry import Overload
from pyscheduler.cel.network import CIDR, CIDR_TYPE, IP, IP_TYPE, parse_cidr, parse_ip
from pyscheduler.cel.types import BOOL, INT, STRING
from pyscheduler.cel.values import NO_SUCH_OVERLOAD, CelError, Value

_ONE: Final = fixed(1)


def _is_canonical(text: str) -> bool | CelError:
    ip = parse_ip(text)
    return ip if isinstance(ip, CelError) else str(ip) == text


def _is_loopback(ip: IP) -> bool:
    return ip.top(8) == 127 if ip.bits == 32 else ip.number == 1


def _is_link_local_multicast(ip: IP) -> bool:
    return ip.top(24) == 0xE00000 if ip.bits == 32 else ip.top(16) & 0xFF0F == 0xFF02


def _is_link_local_unicast(ip: IP) -> bool:
    return ip.top(16) == 0xA9FE if ip.bits == 32 else ip.top(10) == 0xFE80 >> 6


def _is_global_unicast(ip: IP) -> bool:
    is_multicast = ip.top(4) == 0xE if ip.bits == 32 else ip.top(8) == 0xFF
    is_broadcast = ip.bits == 32 and ip.number == 2**32 - 1
    return bool(ip.number) and not (is_broadcast or is_multicast or _is_loopback(ip) or _is_link_local_unicast(ip))


def _contains_ip_text(cidr: CIDR, text: str) -> bool | CelError:
    ip = parse_ip(text)
    # Upstream's error names no address here.
    return NO_SUCH_OVERLOAD if isinstance(ip, CelError) else cidr.contains(ip)


def _contains_cidr_text(cidr: CIDR, text: str) -> bool | CelError:
    other = parse_cidr(text)
    return other if isinstance(other, CelError) else cidr.contains_network(other)


def contains_ip_cost(arguments: tuple[Value, ...], _result: Value) -> int:
    """Traverse the network twice."""
    return traversal(2 * actual_size(arguments[0]))


def _contains_ip_text_cost(arguments: tuple[Value, ...], result: Value) -> int:
    return contains_ip_cost(arguments, result) + traversal(actual_size(arguments[1]))


def contains_cidr_cost(arguments: tuple[Value, ...], result: Value) -> int:
    """Traverse the network three times."""
    return contains_ip_cost(arguments, result) + traversal(actual_size(arguments[0])) + 1


def _contains_cidr_text_cost(arguments: tuple[Value, ...], result: Value) -> int:
    return contains_cidr_cost(arguments, result) + traversal(actual_size(arguments[1]))


IP_LIBRARY: Final = {
    "ip": (Overload("string_to_ip", (STRING,), IP_TYPE, parse_ip, cost=traverse_first),),
    "family": (Overload("ip_family", (IP_TYPE,), INT, lambda ip: 4 if ip.bits == 32 else 6, True, _ONE),),
    "ip.isCanonical": (Overload("ip_is_canonical", (STRING,), BOOL, _is_canonical, cost=traverse_first_twice),),
    "isUnspecified": (Overload("ip_is_unspecified", (IP_TYPE,), BOOL, lambda ip: not ip.number, True, _ONE),),
    "isLoopback": (Overload("ip_is_loopback", (IP_TYPE,), BOOL, _is_loopback, True, _ONE),),
    "isLinkLocalMulticast": (
        Overload("ip_is_link_local_multicast", (IP_TYPE,), BOOL, _is_link_local_multicast, True, _ONE),
    ),
    "isLinkLocalUnicast": (Overload("ip_is_link_local_unicast", (IP_TYPE,), BOOL, _is_link_local_unicast, True, _ONE),),
    "isGlobalUnicast": (Overload("ip_is_global_unicast", (IP_TYPE,), BOOL, _is_global_unicast, True, _ONE),),
    "isIP": (Overload("is_ip", (STRING,), BOOL, lambda text: isinstance(parse_ip(text), IP), cost=traverse_first),),
    "string": (Overload("ip_to_string", (IP_TYPE,), STRING, str),),
}

CIDR_LIBRARY: Final = {
    "cidr": (Overload("string_to_cidr", (STRING,), CIDR_TYPE, parse_cidr, cost=traverse_first),),
    "containsIP": (
        Overload("cidr_contains_ip_string", (CIDR_TYPE, STRING), BOOL, _contains_ip_text, True, _contains_ip_text_cost),
        Overload("cidr_contains_ip_ip", (CIDR_TYPE, IP_TYPE), BOOL, CIDR.contains, True, contains_ip_cost),
    ),
    "containsCIDR": (
        Overload(
            "cidr_contains_cidr_string", (CIDR_TYPE, STRING), BOOL, _contains_cidr_text, True, _contains_cidr_text_cost
        ),
        Overload("cidr_contains_cidr", (CIDR_TYPE, CIDR_TYPE), BOOL, CIDR.contains_network, True, contains_cidr_cost),
    ),
    "ip": (Overload("cidr_ip", (CIDR_TYPE,), IP_TYPE, lambda cidr: cidr.ip, True, _ONE),),
    "prefixLength": (Overload("cidr_prefix_length", (CIDR_TYPE,), INT, lambda cidr: cidr.prefix, True, _ONE),),
    "masked": (Overload("cidr_masked", (CIDR_TYPE,), CIDR_TYPE, CIDR.masked, True, _ONE),),
    "isCIDR": (
        Overload("is_cidr", (STRING,), BOOL, lambda text: isinstance(parse_cidr(text), CIDR), cost=traverse_first),
    ),
    "string": (Overload("cidr_to_string", (CIDR_TYPE,), STRING, str),),
}
