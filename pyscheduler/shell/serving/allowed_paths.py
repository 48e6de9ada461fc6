"""The paths that are everybody's: nobody is asked who they are, and probes need no credentials and no API server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyscheduler.shell.serving.webserver import Request

ALWAYS_ALLOWED: Final = ("/healthz", "/readyz", "/livez")
"""kube-scheduler's --authorization-always-allow-paths."""


class AllowedPaths:
    """Whole paths, or beginnings that end in `*`; as in Kubernetes they may leave the first slash out."""

    def __init__(self, paths: Sequence[str] = ALWAYS_ALLOWED) -> None:
        """ValueError for a `*` elsewhere."""
        for path in paths:
            if "*" in path[:-1]:
                raise ValueError(f"{path!r} has a * that is not at its end")
        bare = [path.removeprefix("/") for path in paths]
        self._whole = frozenset(path for path in bare if not path.endswith("*"))
        self._beginnings = tuple(path[:-1] for path in bare if path.endswith("*"))

    def __contains__(self, path: str) -> bool:
        bare = path.removeprefix("/")
        return bare in self._whole or (bool(self._beginnings) and bare.startswith(self._beginnings))

    def let(self, request: Request) -> bool:
        """Whether the answer is for everybody and nobody claims to be somebody; a wrong token is refused everywhere."""
        return request.path in self and "authorization" not in request.headers
