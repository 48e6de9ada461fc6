"""Health endpoints /healthz, /livez and /readyz with the format and the checks of Kubernetes components.

They are accessible to all, so they withhold reasons; /readyz/<check>, which needs authorization, includes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec

from pyscheduler import logs
from pyscheduler.shell.serving.messages import ServerRequest, ServerResponse

Check = Callable[[], str | None]
"""Returns None if healthy, otherwise the problem in a few words."""

ENDPOINTS: Final = ("healthz", "livez", "readyz")
_log = logs.get("health")


class Checks(msgspec.Struct, frozen=True):
    """Checks by name: `live` for all endpoints, `well` for /healthz and /readyz, `ready` for /readyz."""

    live: Mapping[str, Check] = msgspec.field(default_factory=dict)
    well: Mapping[str, Check] = msgspec.field(default_factory=dict)
    ready: Mapping[str, Check] = msgspec.field(default_factory=dict)

    def of(self, endpoint: str) -> dict[str, Check]:
        """Return the checks of an endpoint, first `ping`, which always succeeds."""
        live: dict[str, Check] = {"ping": lambda: None, **self.live}
        checks = {"livez": live, "healthz": {**live, **self.well}, "readyz": {**live, **self.well, **self.ready}}
        return checks[endpoint]


def pages(checks: Checks) -> dict[str, Callable[[ServerRequest], ServerResponse]]:
    """Return the pages by path: the endpoints, and each of their checks below them."""
    served: dict[str, Callable[[ServerRequest], ServerResponse]] = {}
    for endpoint in ENDPOINTS:
        own = checks.of(endpoint)
        served[f"/{endpoint}"] = partial(_all, endpoint, own)
        served |= {f"/{endpoint}/{name}": partial(_one, check) for name, check in own.items()}
    return served


def _all(endpoint: str, checks: Mapping[str, Check], request: ServerRequest) -> ServerResponse:
    excluded = set(request.query.get("exclude", ()))
    lines, problems = [], {}
    for name, check in checks.items():
        problem = None if name in excluded else check()
        if problem:
            problems[name] = problem
        how = "failed: reason withheld" if problem else "excluded: ok" if name in excluded else "ok"
        lines.append(f"[{'-' if problem else '+'}]{name} {how}")
    unknown = ", ".join(f'"{name}"' for name in sorted(excluded - checks.keys()))
    if unknown:
        lines.append(f"warn: some health checks cannot be excluded: no matches for {unknown}")
    if problems:
        _log.info("Health check failed", v=2, endpoint=endpoint, **problems)
    elif "verbose" not in request.query:
        return ServerResponse(b"ok")
    lines.append(f"{endpoint} check {'failed' if problems else 'passed'}")
    return ServerResponse(("\n".join(lines) + "\n").encode(), 500 if problems else 200)


def _one(check: Check, request: ServerRequest) -> ServerResponse:  # noqa: ARG001 - the signature of a Page
    problem = check()
    return ServerResponse(f"internal server error: {problem}\n".encode(), 500) if problem else ServerResponse(b"ok")
