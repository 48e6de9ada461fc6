"""Structured logs: a sentence and its facts, as klog's text or as JSON lines.

`--v N` works as in Kubernetes: a line says from which verbosity on it is written, 0 always. Libraries that log through
the standard module (aiohttp, kopf) come out in the same format.
"""

from __future__ import annotations

import logging
import sys
import time
import traceback
from typing import Any, TextIO

import msgspec

FORMATS = ("text", "json")
"""What `--logging-format` takes."""

_LIBRARIES_FROM = 6
_state = {"verbosity": 0}


class Log:
    """A named source of log lines. Fields are facts: `log.info("Pod bound", pod="a/b", node="n1")`."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"pyscheduler.{name}")

    def info(self, message: str, /, v: int = 0, **fields: object) -> None:
        """A line that is written from verbosity `v` on."""
        if v <= _state["verbosity"]:
            self._logger.info(message, extra={"fields": fields, "v": v})

    def warning(self, message: str, /, error: BaseException | None = None, **fields: object) -> None:
        """Something is wrong, the scheduler copes."""
        self._write(logging.WARNING, message, error, fields)

    def error(self, message: str, /, error: BaseException | None = None, **fields: object) -> None:
        """Something is wrong and somebody should look."""
        self._write(logging.ERROR, message, error, fields)

    def crash(self, message: str, /, error: BaseException, **fields: object) -> None:
        """A bug: the line carries the error's type and, as one field, the traceback."""
        named = {"err": "".join(traceback.format_exception_only(error)).strip()}
        lines = {"traceback": "".join(traceback.format_exception(error))}
        self._write(logging.ERROR, message, error, named | fields | lines)

    def _write(self, level: int, message: str, error: BaseException | None, fields: dict[str, object]) -> None:
        if error is not None:
            fields = {"err": str(error) or type(error).__name__} | fields
        self._logger.log(level, message, extra={"fields": fields, "v": 0})


def get(name: str) -> Log:
    """The log of one part of the scheduler."""
    return Log(name)


def enabled(v: int) -> bool:
    """Whether lines of verbosity `v` are written: ask before computing something costly for one."""
    return v <= _state["verbosity"]


def setup(format: str = "text", verbosity: int = 0, stream: TextIO | None = None) -> None:
    """Send all logs to `stream` (stderr) in a format of FORMATS. ValueError for another one."""
    if format not in FORMATS:
        raise ValueError(f"--logging-format {format!r} is not known; use {' or '.join(FORMATS)}")
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
    return fields


class _Text(logging.Formatter):
    """`W1120 19:36:38.123456 4711 reflector] "Watch was cut" kind="pods"`: klog's header and key=value pairs."""

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%m%d %H:%M:%S", time.gmtime(record.created))
        source = record.name.removeprefix("pyscheduler.")
        head = f"{record.levelname[0]}{at}.{int(record.created % 1 * 1e6):06d} {record.process} {source}]"
        pairs = (f"{key}={_quoted(value)}" for key, value in _fields(record).items())
        return " ".join((head, _quoted(record.getMessage()), *pairs))


class _Json(logging.Formatter):
    """One JSON object a line, with the keys that Kubernetes components use: ts, v, msg, err."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {"ts": round(record.created, 6), "level": record.levelname.lower()}
        line |= {"logger": record.name.removeprefix("pyscheduler."), "v": getattr(record, "v", 0)}
        line |= {"msg": record.getMessage()} | _fields(record)
        return msgspec.json.encode(line, enc_hook=str).decode()


def _quoted(value: object) -> str:
    if isinstance(value, bool | int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return msgspec.json.encode(str(value)).decode()
