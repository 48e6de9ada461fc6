"""Priority of API versions, as in Kubernetes (apimachinery's version.CompareKubeAwareVersionStrings)."""

from __future__ import annotations

import re
from typing import Final

VersionPriority = tuple[bool, int, int, int, str]
"""Sort key of a version; the preferred version is the least."""
_VERSION: Final = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")
_LEVELS: Final = {None: 0, "beta": 1, "alpha": 2}


def version_priority(version: str) -> VersionPriority:
    """Return the sort key of a version: GA before beta before alpha, higher numbers first, other names last."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return True, 0, 0, 0, version
    major, level, minor = found.groups()
    return False, _LEVELS[level], -int(major), -int(minor or 0), ""
