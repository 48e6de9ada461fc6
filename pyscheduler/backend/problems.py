"""Current problems of a backend: what fails now, by part. Each part clears its own when it succeeds again."""

from __future__ import annotations

from collections.abc import Callable


class Problems:
    """Latest problem of each part, as one line."""

    def __init__(self) -> None:
        self._by_part: dict[str, str] = {}
        self._checks: dict[str, Callable[[], str]] = {}

    def report(self, part: str, problem: object) -> None:
        """Set the problem of a part."""
        self._by_part[part] = " ".join(str(problem).split())

    def clear(self, part: str) -> None:
        """Remove the problem of a part."""
        self._by_part.pop(part, None)

    def add_check(self, part: str, check: Callable[[], str]) -> None:
        """Add a part whose problem `check` returns whenever problems are read, "" if there is none."""
        self._checks[part] = check

    def parts(self) -> dict[str, str]:
        """Return the problems by part."""
        checked = {part: problem for part, check in self._checks.items() if (problem := check())}
        return {**self._by_part, **checked}

    def __str__(self) -> str:
        return "; ".join(f"{part}: {problem}" for part, problem in self.parts().items())
