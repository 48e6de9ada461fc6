"""Who may ask what: status codes and words are kube-scheduler's."""

from __future__ import annotations

import msgspec
import pytest

from pyscheduler.shell.kube.connection import Connection
from pyscheduler.shell.serving.allowed_paths import AllowedPaths
from pyscheduler.shell.serving.authorization import AuthorizationFilter
from pyscheduler.shell.serving.reviews import ACCESS_REVIEWS, TOKEN_REVIEWS, Reviewer, TooBusy, User
from pyscheduler.shell.serving.webserver import Request, Response, Subject

from .fake_api import FakeApi, Hangup, Reply, ok, refused
from .virtual import VirtualClock

ALICE = {"username": "alice", "groups": ["a"]}


@pytest.fixture
def gate(connection: Connection, clock: VirtualClock) -> AuthorizationFilter:
    return AuthorizationFilter(Reviewer(connection, connection, clock), AllowedPaths())


def asked(path: str, token: str = "", subject: Subject | None = None, method: str = "GET") -> Request:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return Request(path, {}, headers, method, path, subject)


def certificate(*pairs: tuple[str, str]) -> Subject:
    return tuple((pair,) for pair in pairs)


def belongs(user: object) -> Reply:
    return ok({"status": {"authenticated": bool(user), "user": user or {}}})


def allows(allowed: bool, **more: object) -> Reply:
    return ok({"status": {"allowed": allowed, **more}})


def status(answer: Response | None) -> dict[str, object]:
    assert answer is not None
    assert isinstance(answer.body, bytes)
    return msgspec.json.decode(answer.body, type=dict[str, object])


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health_is_everybodys(api: FakeApi, gate: AuthorizationFilter, path: str) -> None:
    assert await gate.refusal(asked(path), served=True) is None
    assert api.calls == []


@pytest.mark.parametrize("path", ["/metrics", "/healthz/ping", "/readyz/", "//healthz", "/healthzz"])
async def test_nothing_else_is(api: FakeApi, gate: AuthorizationFilter, path: str) -> None:
    api.script(ACCESS_REVIEWS, allows(False))
    refusal = await gate.refusal(asked(path), served=True)
    assert status(refusal) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'forbidden: User "system:anonymous" cannot get path "{path}"',
        "reason": "Forbidden",
        "details": {},
        "code": 403,
    }
    spec = api.calls[0].json["spec"]
    assert (spec["user"], spec["groups"]) == ("system:anonymous", ["system:unauthenticated"])


async def test_everybody_may_be_given_a_page(api: FakeApi, gate: AuthorizationFilter) -> None:
    api.script(ACCESS_REVIEWS, allows(True))
    assert await gate.refusal(asked("/metrics"), served=True) is None


async def test_nobody_learns_what_is_not_served_or_keeps_the_server_busy_with_it(
    api: FakeApi, gate: AuthorizationFilter
) -> None:
    assert status(await gate.refusal(asked("/a"), served=False))["code"] == 403
    assert api.calls == []


async def test_a_token_opens_what_its_user_may_ask_for(api: FakeApi, gate: AuthorizationFilter) -> None:
    api.script(TOKEN_REVIEWS, belongs(ALICE))
    api.script(ACCESS_REVIEWS, allows(True), allows(False, reason="not <her>"), allows(False))
    assert await gate.refusal(asked("/metrics", "t"), served=True) is None
    refused = status(await gate.refusal(asked("/configz", "t", method="DELETE"), served=True))
    assert refused["message"] == 'forbidden: User "alice" cannot delete path "/configz": not <her>'
    assert status(await gate.refusal(asked("/nowhere", "t"), served=False))["code"] == 403
    verbs = [call.json["spec"]["nonResourceAttributes"] for call in api.of("POST", ACCESS_REVIEWS)]
    assert verbs == [
        {"path": "/metrics", "verb": "get"},
        {"path": "/configz", "verb": "delete"},
        {"path": "/nowhere", "verb": "get"},
    ]


async def test_denied_weighs_more_than_allowed(api: FakeApi, gate: AuthorizationFilter) -> None:
    api.script(ACCESS_REVIEWS, allows(True, denied=True))
    assert status(await gate.refusal(asked("/metrics"), served=True))["code"] == 403


@pytest.mark.parametrize("path", ["/metrics", "/healthz"])
async def test_a_token_that_is_nobodys_gets_nothing(api: FakeApi, gate: AuthorizationFilter, path: str) -> None:
    api.script(TOKEN_REVIEWS, belongs(None))
    said = status(await gate.refusal(asked(path, "t"), served=True))
    assert (said["code"], said["reason"], said["message"]) == (401, "Unauthorized", "Unauthorized")


@pytest.mark.parametrize("header", ["Basic YTpi", "Bearer", "Bearer ", "Bearer  t", "t"])
async def test_other_headers_say_nothing(api: FakeApi, gate: AuthorizationFilter, header: str) -> None:
    api.script(ACCESS_REVIEWS, allows(False))
    question = Request("/metrics", {}, {"authorization": header})
    assert "system:anonymous" in str(status(await gate.refusal(question, served=True))["message"])


async def test_a_certificate_says_who_one_is(api: FakeApi, gate: AuthorizationFilter) -> None:
    api.script(ACCESS_REVIEWS, allows(True))
    subject = certificate(("organizationName", "a"), ("organizationName", "b"), ("commonName", "bob"))
    assert await gate.refusal(asked("/metrics", subject=subject), served=True) is None
    spec = api.calls[0].json["spec"]
    assert (spec["user"], spec["groups"]) == ("bob", ["a", "b", "system:authenticated"])


async def test_masters_need_no_permission(api: FakeApi, gate: AuthorizationFilter) -> None:
    subject = certificate(("organizationName", "system:masters"), ("commonName", "admin"))
    assert await gate.refusal(asked("/metrics", subject=subject), served=True) is None
    assert await gate.refusal(asked("/nowhere", subject=subject, method="POST"), served=False) is None
    assert api.calls == []


async def test_a_certificate_without_a_name_is_none(api: FakeApi, gate: AuthorizationFilter) -> None:
    api.script(ACCESS_REVIEWS, allows(False))
    subject = certificate(("organizationName", "system:masters"))
    assert "system:anonymous" in str(status(await gate.refusal(asked("/metrics", subject=subject), True))["message"])


async def test_a_server_that_does_not_answer_opens_nothing(api: FakeApi, gate: AuthorizationFilter) -> None:
    api.script(TOKEN_REVIEWS, Hangup())
    assert status(await gate.refusal(asked("/metrics", "t"), served=True))["code"] == 401
    api.script(ACCESS_REVIEWS, refused(403, "Forbidden", "may not <ask>"))
    broken = await gate.refusal(asked("/metrics"), served=True)
    assert broken is not None
    assert broken.status == 500
    assert broken.body == b'Internal Server Error: "/metrics": may not &lt;ask&gt;\n'


async def test_too_many_questions_are_put_off() -> None:
    class Busy(Reviewer):
        def __init__(self) -> None:
            pass

        async def user_of(self, token: str) -> User | None:
            raise TooBusy

    refusal = await AuthorizationFilter(Busy(), AllowedPaths()).refusal(asked("/metrics", "t"), served=True)
    assert status(refusal)["code"] == 429
