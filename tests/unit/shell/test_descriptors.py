"""Number of connections under a low limit of open files."""

from __future__ import annotations

import resource

import pytest

from pyscheduler.shell import descriptors
from pyscheduler.shell.descriptors import MAX_OPEN_FILES, connections

ANY = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("limits", "raised", "allowed"),
    [
        pytest.param((256, ANY), (MAX_OPEN_FILES, ANY), 448, id="soft limit is raised"),
        pytest.param((256, 1000), (1000, 1000), 448, id="raised to the hard limit"),
        pytest.param((256, 300), (300, 300), 150, id="half of a small limit"),
        pytest.param((1 << 20, 1 << 20), None, 448, id="a high limit stays"),
        pytest.param((ANY, ANY), None, 448, id="no limit"),
    ],
)
def test_open_files_bound_connections(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], raised: tuple[int, int] | None, allowed: int
) -> None:
    made: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: made.append(new))
    assert connections(448) == allowed
    assert made == ([] if raised is None else [raised])


def test_limit_that_cannot_be_raised_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("not permitted")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, ANY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert descriptors.connections(448) == 128
