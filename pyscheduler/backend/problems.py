"""Current problems of a backend: what fails now, by part. Each part clears its own when it succeeds again."""

from __future__ import annotations


class Problems:
    """Latest problem of each part, as one line."""

    def __init__(self) -> None:
        self._by_part: dict[str, str] = {}

    def report(self, part: str, problem: object) -> None:
        """Set the problem of a part."""
        self._by_part[part] = " ".join(str(problem).split())

    def clear(self, part: str) -> None:
        """Remove the problem of a part."""
        self._by_part.pop(part, None)

    def parts(self) -> dict[str, str]:
        """Return the problems by part."""
        return dict(self._by_part)

    def __str__(self) -> str:
        return "; ".join(f"{part}: {problem}" for part, problem in self._by_part.items())
