"""API writes of plugins, and bindings without a response."""

from __future__ import annotations

import pytest

from pyscheduler.api import ApiError
from pyscheduler.core.commands import EventType, Record
from pyscheduler.kube.connection import MERGE_PATCH, Connection
from pyscheduler.shell.writers.writer import KubeWriter
from pyscheduler.testing import pod
from tests.unit.kube.fake_api import FakeApi, Hangup, Reply, ok, refused
from tests.unit.kube.virtual import VirtualClock

POD = "/api/v1/namespaces/default/pods/a"
BINDING = f"{POD}/binding"
A = pod("a").build()


async def test_binding_contains_pod_uid_and_node(api: FakeApi, connection: Connection) -> None:
    api.script(BINDING, Reply(201))
    await KubeWriter(connection).bind(A, "n1")
    [call] = api.calls
    assert call.method == "POST"
    assert call.json == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": "default", "name": "a", "uid": "a"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


async def test_events_of_plugins_are_passed_to_the_recorder(connection: Connection) -> None:
    recorded: list[Record] = []
    KubeWriter(connection, recorder=recorded.append).record(A, "Waiting", "Scheduling", "for a device")
    assert recorded == [Record(EventType.NORMAL, "Waiting", "Scheduling", "for a device", A)]


async def test_event_of_a_plugin_has_encodable_texts(connection: Connection) -> None:
    recorded: list[Record] = []
    writer = KubeWriter(connection, recorder=recorded.append)
    writer.record(A, "Caf\udce9", "\udce9", "no file")
    assert (recorded[0].reason, recorded[0].action) == ("Caf?", "?")
    with pytest.raises(TypeError):
        writer.record(A, 5, "Scheduling", "no file")  # type: ignore[arg-type]


async def test_binding_without_a_response_is_sent_again(api: FakeApi, connection: Connection) -> None:
    api.script(BINDING, Hangup(), Reply(201))
    await KubeWriter(connection).bind(A, "n1")
    assert len(api.calls) == 2


TAKEN = refused(409, "Conflict", 'pod a is already assigned to node "n1"')


async def test_binding_without_a_response_that_succeeded_is_a_success(api: FakeApi, connection: Connection) -> None:
    api.script(BINDING, Hangup(), TAKEN)
    api.script(POD, ok(pod("a").on("n1").manifest))
    await KubeWriter(connection).bind(A, "n1")


@pytest.mark.parametrize("found", [pod("a").on("n2"), pod("a").uid("other").on("n1")], ids=["node", "uid"])
async def test_binding_without_a_response_that_lost_is_a_conflict(
    api: FakeApi, connection: Connection, found: object
) -> None:
    api.script(BINDING, Hangup(), TAKEN)
    api.script(POD, ok(found.manifest))  # type: ignore[attr-defined]
    with pytest.raises(ApiError, match="already assigned"):
        await KubeWriter(connection).bind(A, "n1")


async def test_conflict_of_the_first_try_is_raised_without_a_lookup(api: FakeApi, connection: Connection) -> None:
    api.script(BINDING, TAKEN)
    with pytest.raises(ApiError, match="already assigned"):
        await KubeWriter(connection).bind(A, "n1")
    assert len(api.calls) == 1


async def test_binding_that_never_gets_a_response_fails(api: FakeApi, connection: Connection) -> None:
    api.script(BINDING, Hangup(), Hangup(), Hangup(), Hangup())
    with pytest.raises(ApiError, match="the connection broke"):
        await KubeWriter(connection).bind(A, "n1")
    assert len(api.calls) == 3


BROKEN, DOWN = refused(500, "InternalError", "etcd failed"), refused(503, "ServiceUnavailable", "no backend")
SLOW = refused(500, "ServerTimeout", "try again")


@pytest.mark.parametrize(
    ("replies", "slept"),
    [
        pytest.param([BROKEN, Reply(201)], [0.01], id="internal error"),
        pytest.param([DOWN, BROKEN, DOWN, Reply(201)], [0.01, 0.05, 0.25], id="three errors"),
    ],
)
async def test_binding_is_retried_after_server_errors(
    api: FakeApi, connection: Connection, replies: list[Reply], slept: list[float]
) -> None:
    api.script(BINDING, *replies)
    clock = VirtualClock()
    await KubeWriter(connection, clock=clock).bind(A, "n1")
    assert (len(api.calls), clock.slept) == (len(replies), slept)


@pytest.mark.parametrize(
    ("replies", "error"),
    [
        pytest.param([BROKEN] * 4, "etcd failed", id="four errors"),
        pytest.param([SLOW], "try again", id="ServerTimeout"),
    ],
)
async def test_binding_fails_after_the_last_server_error(
    api: FakeApi, connection: Connection, replies: list[Reply], error: str
) -> None:
    api.script(BINDING, *replies, Reply(201))
    with pytest.raises(ApiError, match=error):
        await KubeWriter(connection, clock=VirtualClock()).bind(A, "n1")
    assert len(api.calls) == len(replies)


async def test_the_other_verbs(api: FakeApi, connection: Connection) -> None:
    path = "/apis/x/v1/things"
    api.script(path, ok({"made": 1}))
    api.script(f"{path}/a", ok({"got": 1}), ok({"put": 1}), ok({"merged": 1}), ok({}))
    writer = KubeWriter(connection)
    assert await writer.create(path, {"a": 1}) == {"made": 1}
    assert await writer.get(f"{path}/a") == {"got": 1}
    assert await writer.replace(f"{path}/a", {"b": 2}) == {"put": 1}
    assert await writer.merge(f"{path}/a", {"c": None}) == {"merged": 1}
    await writer.delete(f"{path}/a")
    assert [(c.method, c.body) for c in api.calls] == [
        ("POST", b'{"a":1}'),
        ("GET", b""),
        ("PUT", b'{"b":2}'),
        ("PATCH", b'{"c":null}'),
        ("DELETE", b""),
    ]
    assert api.calls[3].content_type == MERGE_PATCH


async def test_sleep_uses_the_clock(connection: Connection) -> None:
    clock = VirtualClock()
    await KubeWriter(connection, clock=clock).sleep(1.5)
    assert clock.slept == [1.5]


async def test_response_that_is_not_an_object(api: FakeApi, connection: Connection) -> None:
    api.script("/x", Reply(body=b"[1]"))
    with pytest.raises(ApiError, match="the response to /x is not a JSON object"):
        await KubeWriter(connection).get("/x")
