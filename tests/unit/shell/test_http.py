"""Health, metrics and pages, as probes and people ask for them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from pyscheduler.shell.http import Checks, HttpServer, ServerProblem


class Served:
    """A server with one check of each kind, and a way to ask it."""

    def __init__(self) -> None:
        self.stuck: str | None = None
        self.unsynced: str | None = None
        registry = CollectorRegistry()
        Counter("tries", "Tries.", registry=registry).inc(3)
        checks = Checks(live={"loop": lambda: self.stuck}, ready={"informer-sync": lambda: self.unsynced})
        pages = {"/configz": lambda: {"profiles": ["a"]}}
        self.server = HttpServer(checks, lambda: registry, "127.0.0.1", 0, pages=pages)
        self._session = aiohttp.ClientSession()

    async def get(self, path: str, accept: str = "*/*") -> tuple[int, str]:
        url = f"http://127.0.0.1:{self.server.port}{path}"
        async with self._session.get(url, headers={"Accept": accept}) as response:
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
async def test_all_is_well(served: Served, path: str) -> None:
    assert await served.get(path) == (200, "ok")


async def test_verbose_names_the_checks(served: Served) -> None:
    assert await served.get("/livez?verbose") == (200, "[+]ping ok\n[+]loop ok\nlivez check passed\n")


async def test_not_ready_is_still_alive(served: Served) -> None:
    served.unsynced = "pods are not listed yet"
    status, text = await served.get("/readyz")
    assert status == 500
    assert text == "[+]ping ok\n[+]loop ok\n[-]informer-sync failed: pods are not listed yet\nreadyz check failed\n"
    assert await served.get("/livez") == (200, "ok")
    assert await served.get("/readyz?exclude=informer-sync") == (200, "ok")
    assert await served.get("/readyz/informer-sync") == (500, "failed: pods are not listed yet\n")


async def test_stuck_is_not_alive(served: Served) -> None:
    served.stuck = "the loop has not turned for 60 s"
    assert [(await served.get(f"/{path}"))[0] for path in ("healthz", "livez", "readyz")] == [500, 500, 500]


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


async def test_a_port_in_use_gives_one_line(served: Served) -> None:
    port = served.server.port
    second = HttpServer(Checks(), CollectorRegistry, "127.0.0.1", port)
    with pytest.raises(ServerProblem) as caught:
        await second.start()
    text = str(caught.value)
    assert text.startswith(f"cannot serve health and metrics on 127.0.0.1:{port}: ")
    assert "address already in use" in text
    assert "\n" not in text
