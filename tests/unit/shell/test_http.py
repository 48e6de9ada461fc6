"""Health endpoints, metrics and pages."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from pyscheduler.shell.serving import health
from pyscheduler.shell.serving.health import Checks
from pyscheduler.shell.serving.http import HttpServer, ServerProblem, json_page, metrics_page, number
from pyscheduler.shell.serving.messages import ServerRequest, ServerResponse
from pyscheduler.shell.serving.webserver import WebServer


class Served:
    """A server with one check of each kind, and a client for it."""

    def __init__(self) -> None:
        self.stuck: str | None = None
        self.unsynced: str | None = None
        registry = CollectorRegistry()
        Counter("tries", "Tries.", registry=registry).inc(3)
        checks = Checks(well={"loop": lambda: self.stuck}, ready={"informer-sync": lambda: self.unsynced})
        pages = {
            **health.pages(checks),
            "/metrics": metrics_page(lambda: registry),
            "/configz": json_page(lambda _: {"profiles": ["a"]}),
            "DELETE /metrics": lambda _: ServerResponse(b"done"),
            "/count": json_page(lambda request: number(request, "limit", 5, 10)),
        }
        self.refusal: ServerResponse | None = None
        self.guarded: list[tuple[str, bool]] = []
        self.server = HttpServer(pages, self._guard, "127.0.0.1", 0)
        self._session = aiohttp.ClientSession()

    async def _guard(self, request: ServerRequest, served: bool) -> ServerResponse | None:
        self.guarded.append((request.path, served))
        return self.refusal

    async def get(self, path: str, accept: str = "*/*", method: str = "GET") -> tuple[int, str]:
        url = f"http://127.0.0.1:{self.server.port}{path}"
        async with self._session.request(method, url, headers={"Accept": accept}) as response:
            return response.status, await response.text()

    async def close(self) -> None:
        await self._session.close()
        await self.server.stop()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    served = Served()
    await served.server.start()
    yield served
    await served.close()


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/ping", "/readyz/informer-sync"])
async def test_all_checks_pass(served: Served, path: str) -> None:
    assert await served.get(path) == (200, "ok")


async def test_verbose_names_the_checks(served: Served) -> None:
    assert await served.get("/healthz?verbose") == (200, "[+]ping ok\n[+]loop ok\nhealthz check passed\n")


async def test_not_ready_is_still_alive(served: Served) -> None:
    served.unsynced = "pods are not listed yet"
    status, text = await served.get("/readyz")
    assert status == 500
    assert text == "[+]ping ok\n[+]loop ok\n[-]informer-sync failed: reason withheld\nreadyz check failed\n"
    assert await served.get("/livez") == (200, "ok")
    assert await served.get("/readyz?exclude=informer-sync") == (200, "ok")
    assert await served.get("/readyz/informer-sync") == (500, "internal server error: pods are not listed yet\n")


async def test_excluded_checks_are_listed(served: Served) -> None:
    _, text = await served.get("/healthz?verbose&exclude=loop&exclude=nothing")
    assert text.splitlines() == [
        "[+]ping ok",
        "[+]loop excluded: ok",
        'warn: some health checks cannot be excluded: no matches for "nothing"',
        "healthz check passed",
    ]


async def test_failed_check_affects_healthz_and_readyz_but_not_livez(served: Served) -> None:
    served.stuck = "the loop has been blocked for 60 s"
    assert [(await served.get(f"/{path}"))[0] for path in ("healthz", "livez", "readyz")] == [500, 200, 500]


async def test_metrics_in_both_formats(served: Served) -> None:
    status, text = await served.get("/metrics")
    assert (status, "tries_total 3.0" in text) == (200, True)
    _, text = await served.get("/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert text.endswith("# EOF\n")


async def test_pages(served: Served) -> None:
    status, text = await served.get("/configz")
    assert (status, text.split()) == (200, ["{", '"profiles":', "[", '"a"', "]", "}"])
    assert (await served.get("/livez/unknown"))[0] == 404
    assert (await served.get("/nowhere"))[0] == 404


async def test_guard_runs_before_each_response(served: Served) -> None:
    served.refusal = ServerResponse(b"not you", 403)
    assert await served.get("/configz") == (403, "not you")
    assert await served.get("/nowhere?x") == (403, "not you")
    assert served.guarded == [("/configz", True), ("/nowhere", False)]


async def test_page_allows_only_reads_unless_registered_with_a_method(served: Served) -> None:
    assert await served.get("/configz", method="POST") == (405, "only GET and HEAD\n")
    assert await served.get("/configz", method="HEAD") == (200, "")
    assert await served.get("/metrics", method="DELETE") == (200, "done")


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        pytest.param("", (200, "5"), id="the default"),
        pytest.param("?limit=7", (200, "7"), id="given"),
        pytest.param("?limit=1000", (200, "10"), id="the most"),
        pytest.param("?limit=-1", (400, "limit='-1' is not a number\n"), id="negative"),
        pytest.param("?limit=many", (400, "limit='many' is not a number\n"), id="no number"),
    ],
)
async def test_number_in_the_query(served: Served, query: str, answer: tuple[int, str]) -> None:
    assert await served.get(f"/count{query}") == answer


async def test_address_that_does_not_resolve_is_reported(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(_: WebServer) -> None:
        raise OSError(-2, "Name or service not known (while attempting to bind on address ('nowhere', 0))")

    monkeypatch.setattr(WebServer, "start", start)
    with pytest.raises(ServerProblem, match="on nowhere:0: name or service not known; choose another"):
        await HttpServer({}, served._guard, "nowhere", 0).start()


async def test_port_in_use_is_reported_in_one_line(served: Served) -> None:
    port = served.server.port
    second = HttpServer({}, served._guard, "127.0.0.1", port)
    with pytest.raises(ServerProblem) as caught:
        await second.start()
    text = str(caught.value)
    assert text == (
        f"cannot serve health and metrics on 127.0.0.1:{port}: address already in use; "
        "choose another with --bind-address and --secure-port"
    )
