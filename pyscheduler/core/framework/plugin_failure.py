"""Failures of plugins: any exception or invalid result becomes a PluginFailed that names the plugin.

Every exception counts, including SystemExit and CancelledError: a library that the plugin calls may raise them at any
time, and one pod's plugin must not end the scheduler. `raise_plugin_failed` is the only place that decides this.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from pathlib import PurePath
from types import TracebackType
from typing import Final, NoReturn

from pyscheduler.api.handle import ApiError
from pyscheduler.api.outcome import StatusError
from pyscheduler.api.return_values import InvalidReturnValue
from pyscheduler.core.instrument import Instrument
from pyscheduler.texts import text_of

_TEXTS = {
    "PreFilterExtensionAddPod": 'running AddPod on PreFilter plugin "{plugin}": {error}',
    "PreFilterExtensionRemovePod": 'running RemovePod on PreFilter plugin "{plugin}": {error}',
    "Filter": 'running "{plugin}" filter plugin: {error}',
    "Score": 'running Score plugins: plugin "{plugin}" failed with: {error}',
    "NormalizeScore": 'running Normalize on Score plugins: plugin "{plugin}" failed with: {error}',
}
_RAISE: Final = dis.opmap["RAISE_VARARGS"]
_OURS: Final = PurePath(__file__).parents[2]
_MACHINERY: Final = tuple(str(_OURS / part) for part in ("api", "cli", "config", "core", "shell", "testing"))


class PluginFailed(Exception):
    """A plugin failed at an extension point. The text is that of kube-scheduler's error statuses."""

    def __init__(self, plugin: str, point: str, error: BaseException) -> None:
        if isinstance(error, InvalidReturnValue):
            text = "plugin {plugin}: {error}"
        else:
            text = _TEXTS.get(point, 'running {point} plugin "{plugin}": {error}')
        super().__init__(text.format(point=point, plugin=plugin, error=describe(error)))
        self.plugin = plugin
        self.point = point
        self.error = error

    def report_to(self, instrument: Instrument) -> None:
        """Report the plugin that raised, and drop the traceback."""
        instrument.plugin_failed(self.plugin, self.point, self.error)
        self.drop_traceback()

    def drop_traceback(self) -> None:
        """Drop the frames that the error has kept.

        A plugin may raise one exception object again and again. Its traceback grows each time, and would keep the
        frames of all attempts with their objects.
        """
        self.error.__traceback__ = None


def raise_plugin_failed(plugin: str, point: str, error: BaseException) -> NoReturn:
    """Raise PluginFailed for an exception from a plugin's code.

    Two kinds are raised unchanged: the failure of another plugin that this one called through its handle, and
    exceptions that the plugin did not cause (`is_external`).
    """
    if isinstance(error, PluginFailed) or is_external(error):
        raise error
    raise PluginFailed(plugin, point, error) from error


def is_external(error: BaseException) -> bool:
    """Return True if the exception interrupted the code from outside: Ctrl-C, or a coroutine being closed.

    The interpreter raises those between two instructions. A plugin that raises KeyboardInterrupt or GeneratorExit
    itself does so with a `raise` statement.
    """
    if not isinstance(error, KeyboardInterrupt | GeneratorExit):
        return False
    frames = list(_frames(error.__traceback__))
    return not frames or frames[-1].tb_frame.f_code.co_code[frames[-1].tb_lasti] != _RAISE


def describe(error: BaseException) -> str:
    """Return the error's type and text; only the text for errors with a message written for users."""
    text = text_of(error)
    if text and isinstance(error, StatusError | ApiError | InvalidReturnValue):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def code_line(error: BaseException) -> str:
    """Return `file:line` of the plugin's code that failed, "" if none is known.

    It is the last line in the file that the scheduler called, not one of a library that the plugin called.
    """
    if isinstance(error, InvalidReturnValue):
        return error.at
    frames = [f for f in _frames(error.__traceback__) if not f.tb_frame.f_code.co_filename.startswith(_MACHINERY)]
    if not frames:
        return ""
    file = frames[0].tb_frame.f_code.co_filename
    return next(f"{file}:{f.tb_lineno}" for f in reversed(frames) if f.tb_frame.f_code.co_filename == file)


def raised_at(error: BaseException) -> tuple[str, int] | None:
    """Return file and line where the error was raised, None without a traceback."""
    frames = [*_frames(error.__traceback__)]
    return (frames[-1].tb_frame.f_code.co_filename, frames[-1].tb_lineno) if frames else None


def _frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next
