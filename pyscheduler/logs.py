"""Structured logs: a message with fields, as klog's text or as JSON lines.

`--v N` works as in Kubernetes: a line with verbosity v is written if v <= N; most have 0. Libraries that use the
standard logging module (aiohttp, kopf) are written in the same format.
"""

from __future__ import annotations

import logging
import math
import sys
import time
import traceback
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TextIO

import msgspec

from pyscheduler.api import ApiError
from pyscheduler.clock import SystemClock
from pyscheduler.core.framework.plugin_failure import raised_at
from pyscheduler.texts import encodable, text_of
from pyscheduler.truncation import truncated

FORMATS = ("text", "json")
"""Values of `--logging-format`."""

PERIOD_SECONDS = 60.0
"""Time in which a key has one line, or a burst of them."""
_KIND_FIELDS = ("plugin", "point", "url", "resource", "kind")
"""Fields that name a part of the configuration or of the API."""
_BURST = 10
"""Lines of one kind of failure in a period: enough to name the objects if there are few."""
_MAX_KEYS = 1000
_LIBRARIES_FROM = 6
_MAX_FIELD = 16384
"""Maximum bytes of a field. Errors may quote a tenant's object, which has up to 3 MB and is tried again and again."""
_state = {"verbosity": 0}


class Log:
    """Named logger. Fields are keyword arguments: `log.info("Pod bound", pod="a/b", node="n1")`."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"pyscheduler.{name}")

    def info(self, message: str, /, v: int = 0, **fields: object) -> None:
        """Log a line that is written from verbosity `v` on."""
        if v <= _state["verbosity"]:
            self._logger.info(message, extra={"fields": fields, "v": v})

    def warning(self, message: str, /, error: BaseException | None = None, **fields: object) -> None:
        """Log a problem that the scheduler handles by itself."""
        self._write(logging.WARNING, message, error, fields)

    def error(self, message: str, /, error: BaseException | None = None, **fields: object) -> None:
        """Log a problem that needs an operator."""
        self._write(logging.ERROR, message, error, fields)

    def crash(self, message: str, /, error: BaseException, **fields: object) -> None:
        """Log a bug: the line contains the error's type and, as one field, the traceback."""
        named = {"err": "".join(traceback.format_exception_only(error)).strip()}
        lines = {"traceback": "".join(traceback.format_exception(error))}
        self._write(logging.ERROR, message, error, named | fields | lines)

    def _write(self, level: int, message: str, error: BaseException | None, fields: dict[str, object]) -> None:
        if error is not None:
            fields = {"err": text_of(error) or type(error).__name__} | fields
        self._logger.log(level, message, extra={"fields": fields, "v": 0})


class RateLimit:
    """Limit of similar lines to a burst per period: a failure in each attempt of each pod would flood the log."""

    def __init__(self, clock: Callable[[], float], burst: int = 1) -> None:
        self._clock, self._burst = clock, burst
        self._written: dict[Hashable, tuple[float, int]] = {}
        """Start of the period and lines in it by key."""
        self._suppressed: dict[Hashable, int] = {}

    def take(self, key: Hashable) -> dict[str, int] | None:
        """Return the fields to add to the line, None if it is suppressed.

        `suppressed` is the number of lines since the last one, if any. A key must contain no text of a tenant.
        """
        now = self._clock()
        began, lines = self._written.get(key, (-math.inf, 0))
        if now - began < PERIOD_SECONDS:
            if lines < self._burst:
                self._written[key] = began, lines + 1
                return {}
            self._suppressed[key] = self._suppressed.get(key, 0) + 1
            return None
        count = self._suppressed.pop(key, 0)
        if key not in self._written and len(self._written) >= _MAX_KEYS:
            self._written.clear()
            self._suppressed.clear()
        self._written[key] = now, 1
        return {"suppressed": count} if count else {}


class LimitedLog:
    """Logger of failures that repeat, such as for each pod: ten lines a minute for each message and kind of failure.

    The kind is the type of the error, the status and reason of the API server, and the fields of `_KIND_FIELDS`; so a
    tenant cannot vary it, and one plugin or extender does not hide another. Of a crash, the line of code counts too.
    """

    def __init__(self, name: str, clock: Callable[[], float] = SystemClock.now) -> None:
        self._log = Log(name)
        self._limit = RateLimit(clock, _BURST)

    def info(self, message: str, /, **fields: object) -> None:
        """Log a line as `Log.info`, unless there were too many of this message."""
        suppressed = self._limit.take(message)
        if suppressed is not None:
            self._log.info(message, 0, **fields, **suppressed)

    def warning(self, message: str, /, error: BaseException | None = None, **fields: object) -> bool:
        """Log a line as `Log.warning`, unless there were too many of this kind. Return True if it was written."""
        suppressed = self._limit.take((message, _kind(error, fields)))
        if suppressed is not None:
            self._log.warning(message, error, **fields, **suppressed)
        return suppressed is not None

    def crash(self, message: str, /, error: BaseException, **fields: object) -> None:
        """Log a line as `Log.crash`, unless there were too many of this kind."""
        suppressed = self._limit.take((message, _kind(error, fields), raised_at(error)))
        if suppressed is not None:
            self._log.crash(message, error, **fields, **suppressed)


def _kind(error: BaseException | None, fields: Mapping[str, object]) -> Hashable:
    answer = (error.status, error.reason) if isinstance(error, ApiError) else None
    return type(error), answer, *[str(fields.get(name)) for name in _KIND_FIELDS]


def get(name: str) -> Log:
    """Return the logger of one part of the scheduler."""
    return Log(name)


def enabled(v: int) -> bool:
    """Return True if lines of verbosity `v` are written; check it before computing costly fields."""
    return v <= _state["verbosity"]


def setup(format: str = "text", verbosity: int = 0, stream: TextIO | None = None) -> None:
    """Send all logs to `stream` (stderr) in a format of FORMATS. ValueError for another one."""
    if format not in FORMATS:
        raise ValueError(f"--logging-format {format!r} is not supported; use {' or '.join(FORMATS)}")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Json() if format == "json" else _Text())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO if verbosity >= _LIBRARIES_FROM else logging.WARNING)
    logging.getLogger("pyscheduler").setLevel(logging.INFO)
    _state["verbosity"] = verbosity


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = dict(getattr(record, "fields", {}))
    if record.exc_info and record.exc_info[1] is not None:
        fields["err"] = "".join(traceback.format_exception(record.exc_info[1]))
    return {key: truncated(value, _MAX_FIELD) if isinstance(value, str) else value for key, value in fields.items()}


class _Text(logging.Formatter):
    """`W1120 19:36:38.123456 4711 reflector] "Watch was cut" kind="pods"`: klog's header and key=value pairs."""

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%m%d %H:%M:%S", time.gmtime(record.created))
        source = record.name.removeprefix("pyscheduler.")
        head = f"{record.levelname[0]}{at}.{int(record.created % 1 * 1e6):06d} {record.process} {source}]"
        pairs = (f"{key}={_quoted(value)}" for key, value in _fields(record).items())
        return " ".join((head, _quoted(record.getMessage()), *pairs))


class _Json(logging.Formatter):
    """One JSON object per line, with the keys of Kubernetes components: ts (in milliseconds), v, msg, err."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {"ts": round(record.created * 1000, 3), "level": record.levelname.lower()}
        line |= {"logger": record.name.removeprefix("pyscheduler."), "v": getattr(record, "v", 0)}
        line |= {"msg": encodable(record.getMessage())} | _fields(record)
        return msgspec.json.encode(line, enc_hook=text_of).decode()


def _quoted(value: object) -> str:
    if isinstance(value, bool | int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return msgspec.json.encode(text_of(value)).decode()
