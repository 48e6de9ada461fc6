"""Client CAs from the cluster's ConfigMap and from files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pyscheduler.api import ApiError
from pyscheduler.kube.connection import Connection
from pyscheduler.shell.serving import client_ca
from pyscheduler.shell.serving.client_ca import CONFIG_MAP, REREAD, RETRY, ConfigMapAuthorities, FileAuthorities
from tests.unit.kube.fake_api import FakeApi, Held, Reply, ok, refused
from tests.unit.kube.virtual import VirtualClock


def published(authority: str) -> Reply:
    return ok({"data": {"client-ca-file": authority, "requestheader-client-ca-file": "other"}})


async def changed(authorities: ConfigMapAuthorities, before: str) -> str:
    """Wait until `current` differs from `before` and return it."""
    for _ in range(500):
        if (now := await authorities.current()) != before:
            return now
        await asyncio.sleep(0.01)
    raise TimeoutError


@pytest.fixture
def authorities(connection: Connection, clock: VirtualClock) -> ConfigMapAuthorities:
    return ConfigMapAuthorities(connection, clock)


async def test_first_call_waits_for_the_config_map(api: FakeApi, authorities: ConfigMapAuthorities) -> None:
    api.script(CONFIG_MAP, published("a"))
    assert await authorities.current() == "a"
    assert await authorities.current() == "a"
    assert authorities._reading is None  # the next call does not read it again
    assert len(api.calls) == 1


async def test_config_map_is_not_read_before_the_first_call(api: FakeApi, authorities: ConfigMapAuthorities) -> None:
    await asyncio.sleep(0)
    assert api.calls == []


async def test_old_cas_stay_in_use_while_the_config_map_is_read_again(
    api: FakeApi, authorities: ConfigMapAuthorities, clock: VirtualClock
) -> None:
    held = Held(published("b"))
    api.script(CONFIG_MAP, published("a"), held)
    await authorities.current()
    clock.at += REREAD
    assert await authorities.current() == "a"
    await api.called(2)
    assert await authorities.current() == "a"
    held.release.set()
    assert await changed(authorities, "a") == "b"
    assert len(api.calls) == 2


async def test_server_that_does_not_respond_delays_a_call_only_briefly(
    api: FakeApi, authorities: ConfigMapAuthorities, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_ca, "PATIENCE", 0.01)
    api.script(CONFIG_MAP, Held(published("a")))
    async with asyncio.timeout(5):
        assert await authorities.current() == ""


async def test_failed_read_is_retried_later(
    api: FakeApi, authorities: ConfigMapAuthorities, clock: VirtualClock
) -> None:
    api.script(CONFIG_MAP, refused(403, "Forbidden", "no"), ok({}), published("a"))
    assert [await authorities.current() for _ in range(3)] == ["", "", ""]
    clock.at += RETRY
    assert await authorities.current() == ""
    clock.at += REREAD
    await authorities.current()
    await api.called(3)
    assert await changed(authorities, "") == "a"
    assert len(api.calls) == 3


@pytest.mark.parametrize("answer", [refused(404, "NotFound", "not there"), Reply(body=b"<html>")])
async def test_read_raises_the_reason(api: FakeApi, authorities: ConfigMapAuthorities, answer: Reply) -> None:
    api.script(CONFIG_MAP, answer)
    with pytest.raises(ApiError, match=r"not there|cannot decode"):
        await authorities.read()


async def test_file_is_read_again_and_its_last_content_stays_when_it_is_deleted(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_text("a")
    authorities = FileAuthorities(file)
    file.write_text("b")
    assert await authorities.current() == "b"
    file.unlink()
    assert await authorities.current() == "b"
    with pytest.raises(FileNotFoundError):
        FileAuthorities(file)
