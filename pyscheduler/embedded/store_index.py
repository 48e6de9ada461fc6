"""Indexes of stored objects, kept by their changes."""

from __future__ import annotations

from typing import ClassVar, Protocol

from pyscheduler.embedded.objects import Json


class Index(Protocol):
    """Summary of the objects of one bucket; its type is called without arguments."""

    bucket: ClassVar[str]

    def change(self, before: Json | None, after: Json | None) -> None:
        """Apply one change of an object; None before it exists and after it is deleted."""
