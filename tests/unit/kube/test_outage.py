"""Log of an outage of the API server: its lines do not grow with the number of watches and retries."""

from __future__ import annotations

import asyncio
import random

import pytest

from pyscheduler.api import ResourceKind
from pyscheduler.kube.connection import Connection
from pyscheduler.kube.decode import ObjectDecoder, Refusals
from pyscheduler.kube.reflector import Reflector, Watched
from tests.unit.kube.fake_api import Answer, FakeApi, Hangup, event, expired, listed, refused, watch
from tests.unit.kube.virtual import VirtualClock

pytestmark = pytest.mark.asyncio
KINDS = [ResourceKind("example.com", "v1", f"kind{number}s", f"Kind{number}") for number in range(5)]
LIST = listed(version=10)
AWAY = refused(503, "ServiceUnavailable")
EVENT = watch(event("BOOKMARK", {"metadata": {"resourceVersion": "11"}}))


def path(kind: ResourceKind) -> str:
    return f"/apis/{kind.group}/{kind.version}/{kind.plural}"


class Watches:
    """Reflectors of five resources on one connection; `lines` are the logged lines of outages."""

    def __init__(self, api: FakeApi, connection: Connection, clock: VirtualClock) -> None:
        self._api = api
        self.reflectors = [
            Reflector(
                connection,
                Watched(kind),
                ObjectDecoder(kind.plural, dict, Refusals()),
                lambda _: None,
                clock,
                random.Random(1),
            )
            for kind in KINDS
        ]

    def answer(self, *answers: Answer, kinds: list[ResourceKind] = KINDS) -> None:
        for kind in kinds:
            self._api.script(path(kind), *answers)

    async def run(self, calls: int) -> None:
        """Run until the server has received that many calls; the last of each resource is a watch without events."""
        tasks = [asyncio.create_task(reflector.run()) for reflector in self.reflectors]
        await self._api.called(calls)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def watches(
    api: FakeApi, connection: Connection, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> Watches:
    caplog.set_level("INFO", logger="pyscheduler")
    return Watches(api, connection, clock)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.name == "pyscheduler.reflector"]


def fields(caplog: pytest.LogCaptureFixture, message: str) -> dict[str, object]:
    return next(record.__dict__["fields"] for record in caplog.records if record.message == message)


@pytest.mark.parametrize(
    ("failure", "times"),  # the connection itself retries after a lost connection
    [pytest.param(Hangup(), 8, id="connection lost"), pytest.param(AWAY, 3, id="503")],
)
async def test_outage_of_all_watches_is_logged_when_it_begins_and_ends(
    watches: Watches, caplog: pytest.LogCaptureFixture, failure: Answer, times: int
) -> None:
    watches.answer(LIST, *[failure] * times, EVENT)
    await watches.run(calls=5 * (times + 3))
    assert [line for line in lines(caplog) if "still" not in line] == [
        "Watches are interrupted, retrying",
        "Watches have resumed",
    ]
    began = fields(caplog, "Watches are interrupted, retrying")
    assert began["err"]
    assert str(began["resource"]).endswith("s.v1.example.com")
    assert fields(caplog, "Watches have resumed")["affected"] == 5


async def test_long_outage_is_logged_twice_a_minute(
    watches: Watches, caplog: pytest.LogCaptureFixture, clock: VirtualClock
) -> None:
    watches.answer(LIST, *[AWAY] * 10, LIST)
    began = clock.at
    await watches.run(calls=5 * 13)
    minutes = (clock.at - began) / 60
    assert minutes > 5
    assert 2 <= lines(caplog).count("Watches are still interrupted, retrying") <= 2 * minutes
    assert len(lines(caplog)) <= 2 * minutes + 2


async def test_rejection_after_an_outage_is_part_of_it(watches: Watches, caplog: pytest.LogCaptureFixture) -> None:
    """RBAC of an API server that has just started rejects everything for some seconds."""
    watches.answer(LIST, AWAY, refused(403, "Forbidden", "not yet"), EVENT)
    await watches.run(calls=5 * 5)
    assert lines(caplog) == ["Watches are interrupted, retrying", "Watches have resumed"]


async def test_rejection_without_an_outage_names_each_resource(
    watches: Watches, caplog: pytest.LogCaptureFixture
) -> None:
    watches.answer(refused(403, "Forbidden", "no role grants it"), LIST)
    await watches.run(calls=5 * 3)
    assert lines(caplog) == ["Resource is not watched, retrying"] * 5


async def test_expired_version_after_an_outage_is_relisted_at_once(watches: Watches, clock: VirtualClock) -> None:
    kinds = KINDS[:1]
    watches.reflectors = watches.reflectors[:1]
    watches.answer(LIST, *[AWAY] * 3, expired(), LIST, kinds=kinds)
    await watches.run(calls=7)
    assert clock.slept[3:] == [0.0], "only the failures of the outage are backed off"


async def test_resource_that_is_no_longer_watched_does_not_prolong_the_outage(
    connection: Connection, clock: VirtualClock
) -> None:
    stopped = Watches(FakeApi(), connection, clock).reflectors[0]
    following = asyncio.create_task(stopped.run())
    await asyncio.sleep(0)
    connection.watch_outages.fail(stopped, ConnectionError("refused"))
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert not connection.watch_outages.has_failed(stopped)
