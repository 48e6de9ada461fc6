"""Paths of the HTTPS endpoints that need no authorization, so that probes work without credentials or API server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyscheduler.shell.serving.messages import ServerRequest

ALWAYS_ALLOWED: Final = ("/healthz", "/readyz", "/livez")
"""Default of kube-scheduler's --authorization-always-allow-paths."""


class AllowedPaths:
    """Set of paths, and of prefixes that end in `*`; as in Kubernetes the leading slash is optional."""

    def __init__(self, paths: Sequence[str] = ALWAYS_ALLOWED) -> None:
        """ValueError for a `*` that is not at the end."""
        for path in paths:
            if "*" in path[:-1]:
                raise ValueError(f"{path!r} has a * that is not at its end")
        bare = [path.removeprefix("/") for path in paths]
        self._whole = frozenset(path for path in bare if not path.endswith("*"))
        self._beginnings = tuple(path[:-1] for path in bare if path.endswith("*"))

    def __contains__(self, path: str) -> bool:
        bare = path.removeprefix("/")
        return bare in self._whole or (bool(self._beginnings) and bare.startswith(self._beginnings))

    def is_exempt(self, request: ServerRequest) -> bool:
        """Return True if the path is in the set and the request has no token; tokens are always reviewed."""
        return request.path in self and "authorization" not in request.headers
