"""IP addresses and networks with the checks and error texts of Go's net/netip."""

from __future__ import annotations

from typing import ClassVar, Final

from pyscheduler.cel.go_text import quote
from pyscheduler.cel.limits import spend
from pyscheduler.cel.types import CelType, opaque
from pyscheduler.cel.values import NO_SUCH_OVERLOAD, CelError, Opaque, Value

IP_TYPE: Final = opaque("net.IP")
CIDR_TYPE: Final = opaque("net.CIDR")
_DIGITS: Final = "0123456789"
_HEX_DIGITS: Final = "0123456789abcdefABCDEF"
_LAST_IPV4_FIELD: Final = 3
_IPV6_FIELDS: Final = 8
_MAPPED_IPV4: Final = 0xFFFF
"""The upper 96 bits of an IPv4-mapped IPv6 address."""


class AddressError(Exception):
    """An address is invalid; the text is netip's."""


class IP(Opaque):
    """An address of 32 or 128 bits."""

    __slots__ = ("bits", "number")
    TYPE: ClassVar[CelType] = IP_TYPE

    def __init__(self, number: int, bits: int) -> None:
        self.number = number
        self.bits = bits

    @property
    def size(self) -> int:
        """Return the number of bytes."""
        return self.bits // 8

    def top(self, bits: int) -> int:
        """Return the leading bits."""
        return self.number >> (self.bits - bits)

    def equal(self, other: Value) -> bool | CelError:
        """Return True for the same address; an error for a value of another type."""
        return other == self if isinstance(other, IP) else NO_SUCH_OVERLOAD

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IP) and (other.number, other.bits) == (self.number, self.bits)

    def __hash__(self) -> int:
        return hash((self.number, self.bits))

    def __repr__(self) -> str:
        if self.bits == 32:
            return ".".join(map(str, self.number.to_bytes(4, "big")))
        return _ipv6_text(self.number)


class CIDR(Opaque):
    """An address with the length of its network's prefix."""

    __slots__ = ("ip", "prefix")
    TYPE: ClassVar[CelType] = CIDR_TYPE

    def __init__(self, ip: IP, prefix: int) -> None:
        self.ip = ip
        self.prefix = prefix

    @property
    def size(self) -> int:
        """Return the number of bytes that the prefix covers."""
        return -(-self.prefix // 8)

    def masked(self) -> CIDR:
        """Return the network's first address with its prefix."""
        rest = self.ip.bits - self.prefix
        return CIDR(IP(self.ip.number >> rest << rest, self.ip.bits), self.prefix)

    def contains(self, ip: IP) -> bool:
        """Return True for an address of the network."""
        return ip.bits == self.ip.bits and ip.top(self.prefix) == self.ip.top(self.prefix)

    def contains_network(self, other: CIDR) -> bool:
        """Return True for a network that lies in this one."""
        return self.prefix <= other.prefix and self.contains(other.ip)

    def equal(self, other: Value) -> bool | CelError:
        """Return True for the same address and prefix; an error for a value of another type."""
        return other == self if isinstance(other, CIDR) else NO_SUCH_OVERLOAD

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CIDR) and (other.ip, other.prefix) == (self.ip, self.prefix)

    def __hash__(self) -> int:
        return hash((self.ip, self.prefix))

    def __repr__(self) -> str:
        return f"{self.ip}/{self.prefix}"


def parse_ip(text: str) -> IP | CelError:
    """Return the address; zones and IPv4-mapped addresses are errors."""
    try:
        ip, zone = parse_address(text)
    except AddressError as error:
        return CelError(f"IP Address {quote(text)} parse error during conversion from string: {error}")
    if zone:
        return CelError(f"IP address {quote(text)} with zone value is not allowed")
    if _is_mapped(ip):
        return CelError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return ip


def parse_cidr(text: str) -> CIDR | CelError:
    """Return the network; bits after the prefix may be set."""
    prefix = "network address parse error during conversion from string: "
    try:
        cidr = _parse_prefix(text)
    except AddressError as error:
        return CelError(f"{prefix}{prefix}netip.ParsePrefix({quote(text)}): {error}")
    if _is_mapped(cidr.ip):
        return CelError(f"{prefix}IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return cidr


def _is_mapped(ip: IP) -> bool:
    return ip.bits == 128 and ip.top(96) == _MAPPED_IPV4


def _parse_prefix(text: str) -> CIDR:
    address, slash, length = text.rpartition("/")
    if not slash:
        raise AddressError("no '/'")
    ip, zone = parse_address(address)
    if zone:
        raise AddressError("IPv6 zones cannot be present in a prefix")
    if not length or length.strip(_DIGITS) or (len(length) > 1 and length[0] == "0") or len(length) > 19:
        raise AddressError(f"bad bits after slash: {quote(length)}")
    if int(length) > ip.bits:
        raise AddressError("prefix length out of range")
    return CIDR(ip, int(length))


def parse_address(text: str) -> tuple[IP, str]:
    """Return an address and its zone. AddressError if the text is none."""
    spend(len(text))
    for character in text:
        if character == ".":
            return IP(_parse_ipv4(text, text), 32), ""
        if character == ":":
            return _parse_ipv6(text)
        if character == "%":
            raise _error(text, "missing IPv6 address")
    raise _error(text, "unable to parse IP")


def _error(text: str, problem: str, rest: str = "") -> AddressError:
    return AddressError(f"ParseAddr({quote(text)}): {problem}" + (f" (at {quote(rest)})" if rest else ""))


def _parse_ipv4(text: str, part: str) -> int:
    """Return the number of the IPv4 address `part` of `text`."""
    fields: list[int] = []
    value = digits = 0
    for index, character in enumerate(part):
        if character in _DIGITS:
            if digits == 1 and not value:
                raise _error(text, "IPv4 field has octet with leading zero")
            value = value * 10 + int(character)
            digits += 1
            if value > 255:
                raise _error(text, "IPv4 field has value >255")
        elif character != ".":
            raise _error(text, "unexpected character", part[index:])
        else:
            if index in (0, len(part) - 1) or part[index - 1] == ".":
                raise _error(text, "IPv4 field must have at least one digit", part[index:])
            if len(fields) == _LAST_IPV4_FIELD:
                raise _error(text, "IPv4 address too long")
            fields.append(value)
            value = digits = 0
    if len(fields) < _LAST_IPV4_FIELD:
        raise _error(text, "IPv4 address too short")
    return int.from_bytes(bytes((*fields, value)), "big")


def _parse_ipv6(text: str) -> tuple[IP, str]:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _error(text, "zone must be a non-empty string")
    fields: list[int] = []
    ellipsis = -1
    if rest.startswith("::"):
        ellipsis = 0
        rest = rest[2:]
        if not rest:
            return IP(0, 128), zone
    while len(fields) < _IPV6_FIELDS:
        digits = _leading_hex_digits(text, rest)
        if rest[digits : digits + 1] == ".":
            fields += _parse_embedded_ipv4(text, rest, fields, ellipsis)
            rest = ""
            break
        fields.append(int(rest[:digits], 16))
        rest = rest[digits:]
        if not rest:
            break
        if rest[0] != ":":
            raise _error(text, "unexpected character, want colon", rest)
        if len(rest) == 1:
            raise _error(text, "colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest[0] == ":":
            if ellipsis >= 0:
                raise _error(text, "multiple :: in address", rest)
            ellipsis = len(fields)
            rest = rest[1:]
            if not rest:
                break
    return IP(_ipv6_number(text, rest, fields, ellipsis), 128), zone


def _leading_hex_digits(text: str, rest: str) -> int:
    digits = len(rest) - len(rest.lstrip(_HEX_DIGITS))
    if digits > 4:
        raise _error(text, "each group must have 4 or less digits", rest)
    if not digits:
        raise _error(text, "each colon-separated field must have at least one digit", rest)
    return digits


def _parse_embedded_ipv4(text: str, rest: str, fields: list[int], ellipsis: int) -> tuple[int, int]:
    if ellipsis < 0 and len(fields) != _IPV6_FIELDS - 2:
        raise _error(text, "embedded IPv4 address must replace the final 2 fields of the address", rest)
    if len(fields) > _IPV6_FIELDS - 2:
        raise _error(text, "too many hex fields to fit an embedded IPv4 at the end of the address", rest)
    return divmod(_parse_ipv4(text, rest), 1 << 16)


def _ipv6_number(text: str, rest: str, fields: list[int], ellipsis: int) -> int:
    if rest:
        raise _error(text, "trailing garbage after address", rest)
    missing = _IPV6_FIELDS - len(fields)
    if missing and ellipsis < 0:
        raise _error(text, "address string too short")
    if not missing and ellipsis >= 0:
        raise _error(text, "the :: must expand to at least one field of zeros")
    if missing:
        fields[ellipsis:ellipsis] = [0] * missing
    number = 0
    for field in fields:
        number = number << 16 | field
    return number


def _ipv6_text(number: int) -> str:
    fields = [number >> shift & 0xFFFF for shift in range(112, -1, -16)]
    start, length = 0, 1
    for first in range(_IPV6_FIELDS):
        zeros = next((n for n, field in enumerate(fields[first:]) if field), _IPV6_FIELDS - first)
        if zeros > length:
            start, length = first, zeros
    texts = [f"{field:x}" for field in fields]
    if length == 1:
        return ":".join(texts)
    return f"{':'.join(texts[:start])}::{':'.join(texts[start + length :])}"
