"""/flagz and /statusz: flags and status of the process, as in Kubernetes components (KEP-4827).

They are for humans. As in Kubernetes they must not be parsed, which their header states.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import pyscheduler
from pyscheduler.shell.serving.http import Page
from pyscheduler.shell.serving.messages import ServerRequest, ServerResponse

COMPONENT: Final = "pyscheduler"
_HEAD = """
{component} {page}
Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for \
debugging purposes only.
"""
_HOUR, _MINUTE = 3600, 60


def flagz(flags: Callable[[], Mapping[str, Any]]) -> Page:
    """Return a page with the value of every flag."""

    def page(_: ServerRequest) -> ServerResponse:
        return _text_response("flagz", (f"{name}: {_format(value)}" for name, value in sorted(flags().items())))

    return page


def statusz(paths: Iterable[str], started: float, wall: Callable[[], float], emulated: str) -> Page:
    """Return a page with start time, versions and the served paths; times in seconds since 1970.

    `emulated` is the Kubernetes version with the defaults of the feature gates.
    """
    served = " ".join(sorted(path for path in paths if path.startswith("/")))

    def page(_: ServerRequest) -> ServerResponse:
        began = datetime.fromtimestamp(started, UTC)
        lines = {
            "Started": f"{began:%a %b} {began.day:2d} {began:%H:%M:%S} UTC {began.year}",
            "Up": _uptime(wall() - started),
            "Python version": platform.python_version(),
            "Binary version": pyscheduler.__version__,
            "Emulation version": emulated,
            "Paths": served,
        }
        return _text_response("statusz", ("", *(f"{name}: {value}" for name, value in lines.items())))

    return page


def _text_response(page: str, lines: Iterable[str]) -> ServerResponse:
    head = _HEAD.format(component=COMPONENT, page=page)
    return ServerResponse((head + "".join(f"{line}\n" for line in lines)).encode())


def _uptime(seconds: float) -> str:
    whole = max(0, int(seconds))
    return f"{whole // _HOUR} hr {whole % _HOUR // _MINUTE:02d} min {whole % _MINUTE:02d} sec"


def _format(value: Any) -> str:
    """Format a value as Go does."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return f"[{','.join(map(str, value))}]"
    return "" if value is None else str(value)
