"""/flagz and /statusz, in the form of Kubernetes components."""

from __future__ import annotations

import platform

import pyscheduler
from pyscheduler.shell.serving.messages import ServerRequest, ServerResponse
from pyscheduler.shell.serving.zpages import flagz, statusz

WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is "
    "for debugging purposes only."
)


def text(answer: ServerResponse) -> str:
    assert isinstance(answer.body, bytes)
    return answer.body.decode()


def test_flags_are_sorted_and_formatted_as_in_go() -> None:
    page = flagz(lambda: {"v": 2, "leader-elect": True, "config": None, "feature-gates": ("A=true", "B=false")})
    assert text(page(ServerRequest("/flagz", {}, {}))) == (
        f"\npyscheduler flagz\n{WARNING}\nconfig: \nfeature-gates: [A=true,B=false]\nleader-elect: true\nv: 2\n"
    )


def test_statusz_has_start_time_versions_and_paths() -> None:
    started = 1_767_326_405.9
    page = statusz(["/metrics", "DELETE /metrics", "/livez"], started, lambda: started + 7384, "1.36")
    assert text(page(ServerRequest("/statusz", {}, {}))) == (
        f"\npyscheduler statusz\n{WARNING}\n\nStarted: Fri Jan  2 04:00:05 UTC 2026\nUp: 2 hr 03 min 04 sec\n"
        f"Python version: {platform.python_version()}\nBinary version: {pyscheduler.__version__}\n"
        "Emulation version: 1.36\nPaths: /livez /metrics\n"
    )
