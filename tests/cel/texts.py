"""Random texts that the functions of strings accept or almost accept."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

_PATTERN: Final = (
    *("a", "b", "c", "ab", "(", ")", "|", "*", "+", "?", "??", "*?", "{2}", "{1,3}", "{,2}", "{2,}", "[a-c]", "[^a]"),
    *("[^\\d]", "\\d", "\\w", "\\W", "\\s", "\\S", "\\b", "\\B", "^", "$", ".", "\\.", "(?i)", "(?s)", "(?m)", "(?U)"),
    *(
        "(?:",
        "(?P<n>",
        "(?i:",
        "\\pL",
        "\\p{Lu}",
        "\\PN",
        "\\p{^Ll}",
        "[[:alpha:]]",
        "[[:^digit:]x]",
        "\\x41",
        "\\x{42}",
    ),
    *("\\101", "\\Qa.b\\E", "\\A", "\\z", "é", "K", "k", "s", "S", "1", "-", "\\n", "\\q", "\\", "{1001}", "x{3}"),
    *("(?-i)", "(?is-m:", "\\C", "[\\pL\\d-]", "[]a]", "[^]a]", "[z-a]", "[a", "[[:foo:]]", "\\p{Foo}", "\\x", "(?"),
)
_TEXT: Final = (
    *("a", "b", "c", "A", "B", "k", "K", "\u212a", "s", "ſ", "S", "é", "É", "ß", "1", "2", " ", "\n", ".", "-", "_"),
    *("ab", "abc", "x", "%", "/", "😀"),
)
_WORDS: Final = ("a100", "A100", "NVIDIA", "example.com", "dra.example.com", "10Gi", "1.2.3", "true", "5", "", "abc")


def word(rng: Random) -> str:
    """Return a short text."""
    return rng.choice(_WORDS) if rng.random() < 0.5 else join(rng, _TEXT, 8)


def pattern(rng: Random) -> str:
    """Return a regular expression, which may be invalid."""
    if rng.random() < 0.3:
        return rng.choice(("^a", "[0-9]+", "a.*c", "A100$", "(?i)nvidia", ""))
    return join(rng, _PATTERN, 6)


def join(rng: Random, parts: tuple[str, ...], most: int) -> str:
    """Return up to `most` parts one after the other."""
    return "".join(rng.choice(parts) for _ in range(rng.randint(0, most)))


def quantity(rng: Random) -> str:
    """Return a quantity, which may be invalid."""
    digits = tuple("0123456789")
    whole = rng.choice((join(rng, digits, 5), join(rng, digits, 22), "1", "100", "0", "1024", "000", ""))
    fraction = rng.choice(("", "", "", f".{join(rng, digits, 4)}", f".{join(rng, ('0', '1', '2'), 12)}", "."))
    suffixes = ("", "", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "n", "u", "e3", "E-3")
    odd = ("e-12", "e20", "E+2", "e", "x", "i", "mi", "e99", "ee", "e9999999999999999999", "e00", "1")
    suffix = rng.choice(suffixes if rng.random() < 0.8 else odd)
    return rng.choice(("", "", "", "", "-", "+")) + whole + fraction + suffix


def version(rng: Random) -> str:
    """Return a semantic version, which may be invalid."""
    if rng.random() < 0.6:
        return f"{rng.randint(0, 3)}.{rng.randint(0, 3)}.{rng.randint(0, 12)}{rng.choice(('', '', '-rc.1', '+b'))}"
    major = rng.choice(("1", "01", "0", "10", "18446744073709551615", "18446744073709551616", "a", "", "v1"))
    minor = rng.choice((".2", ".02", ".0", "", ".x"))
    tail = rng.choice(("", "-alpha", "-alpha.1", "-01", "-1", "-a..b", "-é", "+b", "+", "-rc.1+b.2", "+b-1"))
    return major + minor + rng.choice((".3", ".03", "", ".")) + tail


def address(rng: Random) -> str:
    """Return an IP address, which may be invalid."""
    known = (
        "::1",
        "::",
        "fe80::1%eth0",
        "::ffff:1.2.3.4",
        "127.0.0.1",
        "169.254.1.1",
        "224.0.0.5",
        "10.0.0.1",
        "%a",
        "x",
    )
    odd = ("%a", "1.2.3.4.", "::1.2.3", ":", "1::2::3", "::1:2:3:4:5:6:7:8", "255.255.255.255", "0.0.0.0")
    choice = rng.random()
    if choice < 0.6:
        return rng.choice(known)
    if choice < 0.7:
        return rng.choice(odd)
    if choice < 0.85:
        octets = ("0", "1", "10", "127", "254", "255", "256", "01", "")
        return ".".join(rng.choice(octets) for _ in range(rng.choice((3, 4, 4, 4, 5))))
    groups = ("0", "1", "fe80", "ff02", "ffff", "2001", "db8", "", "12345", "g", "1.2.3.4")
    return ":".join(rng.choice(groups) for _ in range(rng.randint(2, 9)))


def network(rng: Random) -> str:
    """Return a network, which may be invalid."""
    if rng.random() < 0.5:
        return rng.choice(("10.0.0.0/8", "127.0.0.1/16", "::/0", "fe80::1/64", "0.0.0.0/0", "1.2.3.4/32"))
    return address(rng) + rng.choice(
        ("/8", "/0", "/24", "/32", "/33", "/64", "/128", "/129", "/", "/08", "/-1", "/x", "")
    )


def url(rng: Random) -> str:
    """Return a URL, which may be invalid."""
    schemes = ("http://", "https://", "ftp:", "/", "//", "///", "", "mailto:", "a+b://", ":", "1a://", "HTTP://")
    hosts = (
        "example.com",
        "EX%41.com",
        "h%c3%a9",
        "[::1]",
        "[::1",
        "[fe80::1%25en0]",
        "a b",
        "1.2.3.4",
        "a:b",
        "é",
        "%ff",
    )
    paths = ("", "/", "/a b", "/a%2fb", "/a%20b?", "/é", "/%zz", "*", "/a;b,c", "/[x]!")
    queries = ("", "?", "?a=b&a=c&d", "?a%20b=c+d&x=%zz&y;z=1", "?a?b", "?é=%ff")
    return (
        rng.choice(schemes)
        + rng.choice(("", "user@", "us:pa%20ss@", "u^@", "u:p:q@"))
        + rng.choice(hosts)
        + rng.choice(("", ":80", ":", "::80", ":x", ":80:90"))
        + rng.choice(paths)
        + rng.choice(queries)
        + rng.choice(("", "#f", "#f%20g", "#", "#%zz", "#é!'"))
    )


def name(rng: Random) -> str:
    """Return a name, which may be invalid."""
    parts = (*"abzAZ09-._/é", "example.com", "a.b", "abc-def", "Abc", "aGVsbG8=", "2020-02-29", "T12:00:00Z")
    return join(rng, parts, 4) + "x" * rng.choice((0, 0, 0, 0, 60, 64, 250))


def duration(rng: Random) -> str:
    """Return a duration, which may be invalid."""
    return rng.choice(("1h", "90s", "1.5ms", "-2m", "0s", "2562047h", "1h30m", "1", "", "9223372036s", "1us", "x"))


def timestamp(rng: Random) -> str:
    """Return a time, which may be invalid."""
    times = ("2020-01-01T00:00:00Z", "1969-12-31T23:59:59.5+01:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
    return rng.choice((*times, "2024-02-29T12:30:45.123456789Z", "2020-13-01T00:00:00Z", "x"))


def layout(rng: Random) -> str:
    """Return a format of `string.format`."""
    clauses = ("%s", "%d", "%f", "%.2f", "%e", "%.3e", "%b", "%x", "%X", "%o", "%%", "a", " ", "%q", "%", "%.0f", "%.s")
    return join(rng, clauses, 4)


def literal(text: str) -> str:
    """Return a text as a literal of CEL."""
    parts = []
    for character in text:
        if character in '"\\':
            parts.append(f"\\{character}")
        elif character.isprintable():
            parts.append(character)
        else:
            parts.append(f"\\u{ord(character):04x}" if ord(character) <= 0xFFFF else f"\\U{ord(character):08x}")
    return f'"{"".join(parts)}"'


TextMaker = Callable[[Random], str]
