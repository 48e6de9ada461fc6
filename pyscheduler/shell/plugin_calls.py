"""Find the running plugin in a thread's stack, so that plugin calls need no bookkeeping."""

from __future__ import annotations

import inspect
from types import FrameType
from typing import Final

import msgspec

from pyscheduler.api.plugin import Plugin
from pyscheduler.api.pod import Pod
from pyscheduler.core.framework.registry import POINTS

_POINT_OF: Final = {
    method: point[0].upper() + point[1:]
    for point, base in POINTS.items()
    for method, function in vars(base).items()
    if inspect.isfunction(function) and not method.startswith("_")
}
"""Extension points by method name."""


class Running(msgspec.Struct, frozen=True):
    """The plugin call that a thread runs; all fields but `line` are empty if it runs none."""

    plugin: str = ""
    point: str = ""
    """Extension point, or the method's name if it has none, such as a queueing hint."""
    pod: str = ""
    line: str = ""
    """Innermost line in the file that defines the called method."""


def running(stack: FrameType | None) -> Running:
    """Return the innermost plugin call of a stack, given by its innermost frame."""
    frame, beyond = stack, None
    while frame is not None:
        found = _call(frame, stack)
        if found is not None and found.point in _POINT_OF.values():
            return found
        beyond = beyond or found
        frame = frame.f_back
    return beyond or Running(line=_line(stack))


def _call(frame: FrameType, stack: FrameType | None) -> Running | None:
    """Return the plugin call that a frame represents, None if it is none."""
    code = frame.f_code
    if not code.co_argcount or code.co_varnames[0] != "self":
        return None
    # f_locals copies all local variables, and the copy lives as long as the frame.
    values = frame.f_locals
    plugin = values.get("self")
    if not isinstance(plugin, Plugin):
        return None
    arguments = (values.get(name) for name in code.co_varnames[1 : code.co_argcount])
    pod = next((value.key for value in arguments if isinstance(value, Pod)), "")
    point = _POINT_OF.get(code.co_name, code.co_name)
    return Running(plugin.name, point, pod, _line(_innermost(stack, code.co_filename)))


def _innermost(stack: FrameType | None, file: str) -> FrameType | None:
    """Return the innermost frame that runs code of a file."""
    while stack is not None and stack.f_code.co_filename != file:
        stack = stack.f_back
    return stack


def _line(frame: FrameType | None) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_name})" if frame is not None else ""
