"""The Dockerfile and .dockerignore as data: instructions, and the paths that reach the builder."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath

from tests.docs.pages import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()
_IGNORE = (ROOT / ".dockerignore").read_text().splitlines()


def instructions(text: str) -> list[tuple[str, str]]:
    """Return each instruction and the rest of its line; continued lines are joined."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^\s*#.*\n", "", text, flags=re.M))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines()) if word]


def values(name: str) -> list[str]:
    return [rest for word, rest in instructions(DOCKERFILE) if word == name]


def copied_sources() -> list[str]:
    """Return the sources of COPY instructions in the build context."""
    return [source for rest in values("COPY") if "--from=" not in rest for source in shlex.split(rest)[:-1]]


def is_ignored(path: str) -> bool:
    """Return True if .dockerignore excludes the path: the last pattern that matches it or a parent folder decides."""
    out = False
    for pattern in (line for line in _IGNORE if line and not line.startswith("#")):
        include = pattern.startswith("!")
        above = [path, *map(str, PurePosixPath(path).parents)]
        if any(_matches(folder, pattern.removeprefix("!")) for folder in above if folder != "."):
            out = not include
    return out


def _matches(path: str, pattern: str) -> bool:
    translated = re.escape(pattern).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
    return re.fullmatch(translated, path) is not None
