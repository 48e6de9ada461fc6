"""Helpers for tests of configurations: write files, read problems."""

from __future__ import annotations

import textwrap
from importlib.metadata import EntryPoint

import pytest

from pyscheduler.config import discover
from pyscheduler.config.load import ConfigError, LoadedConfig, loads

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
OURS = "---\napiVersion: pyscheduler.io/v1\nkind: PySchedulerConfiguration\n"


def config(body: str = "", ours: str = "") -> str:
    """Return a file with the usual header, and a second document if `ours` is given."""
    text = HEAD + textwrap.dedent(body).lstrip("\n")
    return text + "\n" + OURS + textwrap.dedent(ours).lstrip("\n") if ours else text


def profile(body: str) -> str:
    """Return a file with one profile with these plugins and pluginConfig."""
    return config("profiles:\n- schedulerName: mine\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "  "))


def problems(text: str) -> list[str]:
    """Return the problems of a file as `path: message`; empty if it loads."""
    try:
        loads(text)
    except ConfigError as e:
        return [str(p) for p in e.problems]
    return []


def only_problem(text: str) -> str:
    """Return the problem of a file, which must have exactly one."""
    found = problems(text)
    assert len(found) == 1, found
    return found[0]


def names(loaded: LoadedConfig, point: str, index: int = 0) -> list[str]:
    """Return the plugins of an extension point of a profile, in order."""
    return [e.name for e in loaded.profiles[index].points[point]]


def weights(loaded: LoadedConfig, index: int = 0) -> dict[str, int]:
    return {e.name: e.weight for e in loaded.profiles[index].points["score"]}


def offer(monkeypatch: pytest.MonkeyPatch, *entries: tuple[str, str]) -> None:
    """Patch the entry points of installed distributions."""
    entry_points = tuple(EntryPoint(name, value, discover.GROUP) for name, value in entries)
    monkeypatch.setattr(discover, "_entry_points", lambda: entry_points)
