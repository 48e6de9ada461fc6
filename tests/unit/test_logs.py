"""Format and verbosity of log lines."""

from __future__ import annotations

import io
import json
import logging
import re
import time
from collections.abc import Iterator

import pytest

from pyscheduler import logs
from pyscheduler.api import ApiError


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logs._state["verbosity"] = 0


def written(format: str = "text", verbosity: int = 0) -> io.StringIO:
    stream = io.StringIO()
    logs.setup(format, verbosity, stream)
    return stream


def test_text_format_is_klogs() -> None:
    out = written()
    logs.get("loop").info("Pod bound", pod="a/b", attempts=2, quick=True, note='quote "hi"\nnow')
    assert re.fullmatch(
        r'I\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ loop\] "Pod bound" pod="a/b" attempts=2 quick=true '
        r'note="quote \\"hi\\"\\nnow"\n',
        out.getvalue(),
    )


def test_json_format_is_one_object_per_line() -> None:
    out = written("json", 4)
    log = logs.get("loop")
    log.info("Pod bound", v=4, pod="a/b")
    log.warning("Trouble", ValueError("what"), nodes={"n1"})
    first, second = map(json.loads, out.getvalue().splitlines())
    assert first.pop("ts") / 1000 == pytest.approx(time.time(), abs=60)  # milliseconds, as kube-scheduler's
    assert first == {"level": "info", "logger": "loop", "v": 4, "msg": "Pod bound", "pod": "a/b"}
    assert (second["level"], second["err"]) == ("warning", "what")


def test_verbosity() -> None:
    out = written(verbosity=2)
    for v in (0, 2, 3):
        logs.get("x").info(f"line {v}", v=v)
    assert re.findall("line .", out.getvalue()) == ["line 0", "line 2"]
    assert logs.enabled(2)
    assert not logs.enabled(3)


def test_crash_logs_the_traceback_in_one_line() -> None:
    out = written()
    try:
        raise KeyError("x")
    except KeyError as error:
        logs.get("x").crash("It broke", error, plugin="P")
    [line] = out.getvalue().splitlines()
    assert line.startswith("E")
    assert '"It broke" err="KeyError: \'x\'" plugin="P" traceback="Traceback' in line


def test_libraries_use_the_same_format() -> None:
    out = written()
    logging.getLogger("aiohttp.server").warning("odd %s", "thing")
    logging.getLogger("aiohttp.server").info("chatter")
    [line] = out.getvalue().splitlines()
    assert line.endswith('aiohttp.server] "odd thing"')


def test_an_unknown_format() -> None:
    with pytest.raises(ValueError, match="--logging-format 'xml' is not supported; use text or json"):
        logs.setup("xml")


@pytest.mark.parametrize("format", logs.FORMATS)
def test_errors_that_quote_a_whole_pod_are_truncated(format: str) -> None:
    out, quoted = written(format), "x" * 3_000_000
    logs.get("test").error("Plugin returned an error status", ValueError(quoted), plugin="NodeAffinity")
    logs.get("test").crash("Plugin raised an exception", ValueError(quoted), pod=quoted)
    first, second = out.getvalue().splitlines()
    assert len(first) < 20_000
    assert len(second) < 60_000
    assert "NodeAffinity" in first


def test_repeating_failure_has_ten_lines_a_minute_for_each_kind(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    log = logs.LimitedLog("binding", lambda: now[0])
    for number in range(50):
        log.warning("Binding failed", ApiError(409, "Conflict", f"pod {number}"), pod=f"p{number}")
    log.warning("Binding failed", ApiError(500, "InternalError", "down"), pod="other")
    fields = [record.__dict__["fields"] for record in caplog.records]
    assert [each["pod"] for each in fields] == [*(f"p{number}" for number in range(10)), "other"]
    now[0] = logs.PERIOD_SECONDS
    log.warning("Binding failed", ApiError(409, "Conflict", "again"), pod="last")
    assert caplog.records[-1].__dict__["fields"] == {"err": "again", "pod": "last", "suppressed": 40}


def test_failure_of_one_extender_or_plugin_does_not_hide_that_of_another(caplog: pytest.LogCaptureFixture) -> None:
    log = logs.LimitedLog("extenders", lambda: 0.0)
    for _ in range(50):
        log.warning("Extender call failed", ValueError("refused"), url="https://a")
        log.warning("Extender call failed", ValueError("refused"), url="https://b", plugin="P")
    urls = [record.__dict__["fields"]["url"] for record in caplog.records]
    assert (urls.count("https://a"), urls.count("https://b")) == (10, 10)


def test_crash_at_one_line_of_code_does_not_hide_that_at_another(caplog: pytest.LogCaptureFixture) -> None:
    log, empty = logs.LimitedLog("controllers", lambda: 0.0), dict[str, int]()
    for number in range(100):
        try:
            if number % 2:
                empty.pop("first")
            else:
                empty.pop("second")
        except KeyError as error:
            log.crash("Failed to sync", error)
    assert len(caplog.records) == 20


class OddError(Exception):
    """Error of a plugin's library, with a reason of any type."""

    def __init__(self, reason: object) -> None:
        super().__init__("odd")
        self.reason = reason


def test_reasons_of_other_errors_than_those_of_the_api_server_are_no_kinds(caplog: pytest.LogCaptureFixture) -> None:
    log = logs.LimitedLog("api-calls", lambda: 0.0)
    for number in range(50):
        log.warning("Failed to make an API call of a plugin", OddError({"text": number}))
    assert len(caplog.records) == 10
