"""Names of Events."""

from __future__ import annotations

from uuid import uuid4

from pyscheduler.embedded.admission.meta import name_problem


def event_name(about: str, suffix: str) -> str:
    """Return the name of an Event about an object, as client-go's GenerateEventName.

    It is a UUID if the object's name is too long for an Event, or no name for one.
    """
    name = f"{about}.{suffix}"
    return str(uuid4()) if name_problem(name) else name
