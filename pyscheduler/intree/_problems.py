"""Error texts for invalid plugin args, worded as kube-scheduler's, so that a search for the message finds its fix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def invalid(path: str, value: object, detail: str) -> str:
    return f"{path}: Invalid value: {_shown(value)}: {detail}"


def unsupported(path: str, value: object, supported: Iterable[str]) -> str:
    return f"{path}: Unsupported value: {_shown(value)}: supported values: {', '.join(map(_shown, supported))}"


def required(path: str, detail: str) -> str:
    return f"{path}: Required value: {detail}"


def forbidden(path: str, detail: str) -> str:
    return f"{path}: Forbidden: {detail}"


def duplicate(path: str, value: object) -> str:
    return f"{path}: Duplicate value: {_shown(value)}"


def raise_for_problems(problems: Sequence[str]) -> None:
    """Raise ValueError if there is any problem; several are listed in brackets."""
    if problems:
        raise ValueError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")


def _shown(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
