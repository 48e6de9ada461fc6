"""Authorization of the HTTPS endpoints, with kube-scheduler's status codes and messages."""

from __future__ import annotations

import msgspec
import pytest

from pyscheduler.kube.connection import Connection
from pyscheduler.shell.serving.allowed_paths import AllowedPaths
from pyscheduler.shell.serving.authorization import AuthorizationFilter
from pyscheduler.shell.serving.messages import ServerRequest, ServerResponse, Subject
from pyscheduler.shell.serving.reviews import ACCESS_REVIEWS, TOKEN_REVIEWS, Reviewer, TooBusy, User
from tests.unit.kube.fake_api import FakeApi, Hangup, Reply, ok, refused
from tests.unit.kube.virtual import VirtualClock

ALICE = {"username": "alice", "groups": ["a"]}


@pytest.fixture
def gate(connection: Connection, clock: VirtualClock) -> AuthorizationFilter:
    return AuthorizationFilter(Reviewer(connection, connection, clock), AllowedPaths())


def request_for(path: str, token: str = "", subject: Subject | None = None, method: str = "GET") -> ServerRequest:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return ServerRequest(path, {}, headers, method, path, subject)


def certificate(*pairs: tuple[str, str]) -> Subject:
    return tuple((pair,) for pair in pairs)


def token_review(user: object) -> Reply:
    return ok({"status": {"authenticated": bool(user), "user": user or {}}})


def access_review(allowed: bool, **more: object) -> Reply:
    return ok({"status": {"allowed": allowed, **more}})


def status(answer: ServerResponse | None) -> dict[str, object]:
    assert answer is not None
    assert isinstance(answer.body, bytes)
    return msgspec.json.decode(answer.body, type=dict[str, object])


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health_endpoints_need_no_authorization(api: FakeApi, gate: AuthorizationFilter, path: str) -> None:
    assert await gate.refusal(request_for(path), served=True) is None
    assert api.calls == []


@pytest.mark.parametrize("path", ["/metrics", "/healthz/ping", "/readyz/", "//healthz", "/healthzz"])
async def test_other_paths_are_forbidden_for_anonymous(api: FakeApi, gate: AuthorizationFilter, path: str) -> None:
    api.script(ACCESS_REVIEWS, access_review(False))
    refusal = await gate.refusal(request_for(path), served=True)
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


async def test_anonymous_may_read_a_page_that_rbac_allows(api: FakeApi, gate: AuthorizationFilter) -> None:
    api.script(ACCESS_REVIEWS, access_review(True))
    assert await gate.refusal(request_for("/metrics"), served=True) is None


async def test_anonymous_request_for_an_unknown_path_is_rejected_without_a_review(
    api: FakeApi, gate: AuthorizationFilter
) -> None:
    assert status(await gate.refusal(request_for("/a"), served=False))["code"] == 403
    assert api.calls == []


async def test_token_gives_access_to_the_paths_that_rbac_allows_its_user(
    api: FakeApi, gate: AuthorizationFilter
) -> None:
    api.script(TOKEN_REVIEWS, token_review(ALICE))
    api.script(ACCESS_REVIEWS, access_review(True), access_review(False, reason="not <her>"), access_review(False))
    assert await gate.refusal(request_for("/metrics", "t"), served=True) is None
    refused = status(await gate.refusal(request_for("/configz", "t", method="DELETE"), served=True))
    assert refused["message"] == 'forbidden: User "alice" cannot delete path "/configz": not <her>'
    assert status(await gate.refusal(request_for("/nowhere", "t"), served=False))["code"] == 403
    verbs = [call.json["spec"]["nonResourceAttributes"] for call in api.of("POST", ACCESS_REVIEWS)]
    assert verbs == [
        {"path": "/metrics", "verb": "get"},
        {"path": "/configz", "verb": "delete"},
        {"path": "/nowhere", "verb": "get"},
    ]


async def test_denied_overrides_allowed(api: FakeApi, gate: AuthorizationFilter) -> None:
    api.script(ACCESS_REVIEWS, access_review(True, denied=True))
    assert status(await gate.refusal(request_for("/metrics"), served=True))["code"] == 403


@pytest.mark.parametrize("path", ["/metrics", "/healthz"])
async def test_invalid_token_gets_401(api: FakeApi, gate: AuthorizationFilter, path: str) -> None:
    api.script(TOKEN_REVIEWS, token_review(None))
    error = status(await gate.refusal(request_for(path, "t"), served=True))
    assert (error["code"], error["reason"], error["message"]) == (401, "Unauthorized", "Unauthorized")


@pytest.mark.parametrize("header", ["Basic YTpi", "Bearer", "Bearer ", "Bearer  t", "t"])
async def test_header_without_a_bearer_token_is_anonymous(api: FakeApi, gate: AuthorizationFilter, header: str) -> None:
    api.script(ACCESS_REVIEWS, access_review(False))
    request = ServerRequest("/metrics", {}, {"authorization": header})
    assert "system:anonymous" in str(status(await gate.refusal(request, served=True))["message"])


async def test_client_certificate_names_user_and_groups(api: FakeApi, gate: AuthorizationFilter) -> None:
    api.script(ACCESS_REVIEWS, access_review(True))
    subject = certificate(("organizationName", "a"), ("organizationName", "b"), ("commonName", "bob"))
    assert await gate.refusal(request_for("/metrics", subject=subject), served=True) is None
    spec = api.calls[0].json["spec"]
    assert (spec["user"], spec["groups"]) == ("bob", ["a", "b", "system:authenticated"])


async def test_system_masters_need_no_review(api: FakeApi, gate: AuthorizationFilter) -> None:
    subject = certificate(("organizationName", "system:masters"), ("commonName", "admin"))
    assert await gate.refusal(request_for("/metrics", subject=subject), served=True) is None
    assert await gate.refusal(request_for("/nowhere", subject=subject, method="POST"), served=False) is None
    assert api.calls == []


async def test_certificate_without_a_common_name_is_anonymous(api: FakeApi, gate: AuthorizationFilter) -> None:
    api.script(ACCESS_REVIEWS, access_review(False))
    subject = certificate(("organizationName", "system:masters"))
    assert "system:anonymous" in str(
        status(await gate.refusal(request_for("/metrics", subject=subject), True))["message"]
    )


async def test_access_is_denied_when_a_review_fails(api: FakeApi, gate: AuthorizationFilter) -> None:
    api.script(TOKEN_REVIEWS, Hangup())
    assert status(await gate.refusal(request_for("/metrics", "t"), served=True))["code"] == 401
    api.script(ACCESS_REVIEWS, refused(403, "Forbidden", "may not <get>"))
    broken = await gate.refusal(request_for("/metrics"), served=True)
    assert broken is not None
    assert broken.status == 500
    assert broken.body == b'Internal Server Error: "/metrics": may not &lt;get&gt;\n'


async def test_too_many_reviews_return_429() -> None:
    class Busy(Reviewer):
        def __init__(self) -> None:
            pass

        async def user_of(self, token: str) -> User | None:
            raise TooBusy

    refusal = await AuthorizationFilter(Busy(), AllowedPaths()).refusal(request_for("/metrics", "t"), served=True)
    assert status(refusal)["code"] == 429
