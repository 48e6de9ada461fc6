"""HTTP handlers over a real socket: response forms, watch streams, and shutdown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from pyscheduler.embedded import ApiServer, ApiServerError

from .builders import config_map, pod, workload

PODS = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


class Client:
    """Requests to one server; each response as (HTTP status, document)."""

    def __init__(self, server: ApiServer, session: aiohttp.ClientSession) -> None:
        self.server, self.session = server, session

    async def send(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        async with self.session.request(method, self.server.url + path, data=data, headers=sent) as response:
            text = await response.read()
            return response.status, json.loads(text) if text[:1] == b"{" else text.decode()


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with ApiServer() as server, aiohttp.ClientSession() as session:
        yield Client(server, session)


async def test_pod_is_created_bound_updated_and_deleted(client: Client) -> None:
    code, obj = await client.send("POST", PODS, pod("a"))
    assert (code, obj["status"]["phase"]) == (201, "Pending")
    binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}}
    code, bound = await client.send("POST", f"{PODS}/a/binding", binding)
    assert (code, bound["status"]) == (201, "Success")
    code, again = await client.send("POST", "/api/v1/namespaces/default/bindings", binding)
    assert (code, again["reason"]) == (409, "Conflict")
    merge = "application/merge-patch+json"
    code, _ = await client.send("PATCH", f"{PODS}/a/status", {"status": {"phase": "Running"}}, Content_Type=merge)
    assert code == 200
    code, found = await client.send("GET", f"{PODS}/a")
    assert (found["spec"]["nodeName"], found["status"]["phase"]) == ("n1", "Running")
    code, deleted = await client.send("DELETE", f"{PODS}/a")
    assert (code, "deletionTimestamp" in deleted["metadata"]) == (200, True)
    code, _ = await client.send("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
    code, missing = await client.send("GET", f"{PODS}/a")
    assert (code, missing["kind"], missing["reason"]) == (404, "Status", "NotFound")


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", "/api/v1/unicorns", None, 404),
        ("GET", "/apis/none.example.com/v1/x", None, 404),
        ("GET", "/nowhere", None, 404),
        ("POST", "/api/v1/pods", pod(), 405),
        ("PUT", PODS, pod(), 405),
        ("POST", PODS, b"{", 400),
        ("POST", PODS, b"[1]", 400),
        ("POST", PODS, None, 400),
        ("POST", PODS, {"metadata": "p"}, 400),
        ("POST", PODS, {"metadata": {"name": "p"}, "spec": 5}, 400),
        ("POST", f"{PODS}?dryRun=Some", pod(), 400),
        ("POST", f"{PODS}?fieldValidation=Some", pod(), 400),
        ("GET", f"{PODS}?limit=x", None, 400),
        ("GET", f"{PODS}?fieldSelector=spec.x%3D1", None, 400),
        ("DELETE", f"{PODS}/none", None, 404),
        ("POST", f"{PODS}/none/binding", {"metadata": {}, "target": {"name": "n"}}, 404),
        ("POST", f"{PODS}/none/eviction", {}, 404),
        ("GET", f"{PODS}/none/unknown", None, 404),
        ("PUT", "/apis/apps/v1/namespaces/default/deployments/none/scale", {"spec": {}}, 404),
        ("GET", "/api/v1/namespaces/default/nodes", None, 404),
    ],
)
async def test_errors_are_status_objects(client: Client, method: str, path: str, body: Any, code: int) -> None:
    status, response = await client.send(method, path, body)
    assert (status, response["kind"], response["status"], response["code"]) == (code, "Status", "Failure", code)


@pytest.mark.parametrize("part", ["log", "exec", "attach", "portforward"])
async def test_subresource_that_needs_containers_is_rejected_with_the_reason(client: Client, part: str) -> None:
    await client.send("POST", PODS, pod("a"))
    code, response = await client.send("GET", f"{PODS}/a/{part}")
    assert (code, response["reason"]) == (405, "MethodNotAllowed")
    assert "hollow nodes run no containers" in response["message"]


async def test_lists_are_served_plain_as_tables_and_as_metadata(client: Client) -> None:
    await client.send("POST", PODS, pod("a"))
    _, plain = await client.send("GET", PODS)
    assert (plain["kind"], [i["metadata"]["name"] for i in plain["items"]]) == ("PodList", ["a"])
    _, table = await client.send("GET", PODS, Accept=TABLE)
    assert (table["kind"], table["rows"][0]["cells"][:3]) == ("Table", ["a", "0/1", "Pending"])
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    _, metadata = await client.send("GET", PODS, Accept=accept)
    assert "spec" not in metadata["items"][0]
    code, _ = await client.send("GET", PODS, Accept="application/vnd.kubernetes.protobuf")
    assert code == 406
    code, _ = await client.send("GET", PODS, Accept="application/vnd.kubernetes.protobuf,application/json")
    assert code == 200


async def test_yaml_bodies_are_decoded(client: Client) -> None:
    text = yaml.safe_dump(workload("Deployment")).encode()
    path = "/apis/apps/v1/namespaces/default/deployments"
    code, obj = await client.send("POST", path, text, Content_Type="application/yaml")
    assert (code, obj["spec"]["replicas"]) == (201, 1)
    config = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: dated}\ndata: {day: 2024-01-01}\n"
    where = "/api/v1/namespaces/default/configmaps/dated?fieldManager=me"
    code, applied = await client.send("PATCH", where, config, Content_Type="application/apply-patch+yaml")
    assert (code, applied["data"]) == (201, {"day": "2024-01-01"})
    code, _ = await client.send("POST", path, b"a: [", Content_Type="application/yaml")
    assert code == 400


async def test_warnings_are_returned_as_headers(client: Client) -> None:
    url = f"{client.server.url}{PODS}?fieldValidation=Warn"
    async with client.session.post(url, json=pod("a", typo=1)) as response:
        assert response.headers["Warning"] == '299 - "unknown field \\"spec.typo\\""'


async def test_self_subject_access_review_allows_everything(client: Client) -> None:
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    code, response = await client.send("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    assert (code, response["status"]["allowed"], response["kind"]) == (201, True, "SelfSubjectAccessReview")


async def status_of(client: Client, review: str, spec: Any) -> tuple[int, Any]:
    """Return the code and the status of a review."""
    code, response = await client.send("POST", f"/apis/{review}", {"spec": spec})
    return code, response["status"]


TOKEN_REVIEWS, ACCESS_REVIEWS = "authentication.k8s.io/v1/tokenreviews", "authorization.k8s.io/v1/subjectaccessreviews"


async def test_token_review_authenticates_only_the_token_of_the_kubeconfig(client: Client, tmp_path: Path) -> None:
    config = yaml.safe_load(client.server.write_kubeconfig(tmp_path / "kubeconfig").read_text())
    token = config["users"][0]["user"]["token"]
    code, own = await status_of(client, TOKEN_REVIEWS, {"token": token})
    assert (code, own["authenticated"], own["user"]["username"]) == (201, True, "embedded-user")
    for other in (f"{token}x", token[:-1], "jürgen"):
        assert await status_of(client, TOKEN_REVIEWS, {"token": other}) == (
            201,
            {"user": {}, "error": "invalid bearer token"},
        )


@pytest.mark.parametrize("spec", [{}, {"token": ""}, {"token": 7}, None])
async def test_token_review_without_a_token_is_a_bad_request(client: Client, spec: Any) -> None:
    code, response = await client.send("POST", f"/apis/{TOKEN_REVIEWS}", {"spec": spec})
    assert (code, response["message"]) == (400, "token is required for TokenReview in authentication")


@pytest.mark.parametrize(
    ("subject", "allowed"),
    [
        pytest.param({"user": "embedded-user"}, True, id="the server's user"),
        pytest.param({"user": "me", "groups": ["system:masters"]}, True, id="member of system:masters"),
        pytest.param({"user": "system:anonymous", "groups": ["system:unauthenticated"]}, False, id="anonymous"),
        pytest.param({"groups": "system:masters"}, False, id="groups not a list"),
        pytest.param({}, False, id="no subject"),
    ],
)
async def test_access_review_allows_only_the_servers_user(client: Client, subject: Any, allowed: bool) -> None:
    attributes = {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}
    code, status = await status_of(client, ACCESS_REVIEWS, {**subject, **attributes})
    assert (code, status["allowed"]) == (201, allowed)


async def test_watch_streams_events(client: Client) -> None:
    url = f"{client.server.url}/api/v1/pods?watch=1&resourceVersion=0"
    async with client.session.get(url) as stream, asyncio.timeout(5):
        await client.send("POST", PODS, pod("a"))
        first = json.loads(await stream.content.readline())
        await client.send("DELETE", f"{PODS}/a")
        second = json.loads(await stream.content.readline())
    assert [first["type"], second["type"]] == ["ADDED", "DELETED"]


async def test_watch_of_tables_sends_column_headers_once(client: Client) -> None:
    url = f"{client.server.url}/api/v1/pods?watch=1"
    async with client.session.get(url, headers={"Accept": TABLE}) as stream, asyncio.timeout(5):
        await client.send("POST", PODS, pod("a"))
        await client.send("POST", PODS, pod("b"))
        lines = [json.loads(await stream.content.readline())["object"] for _ in range(2)]
    assert [len(line["rows"]) for line in lines] == [1, 1]
    assert lines[0]["columnDefinitions"][0]["name"] == "Name"
    assert lines[1]["columnDefinitions"] is None


async def test_watch_ends_after_its_timeout(client: Client) -> None:
    url = f"{client.server.url}/api/v1/pods?watch=1&timeoutSeconds=1"
    async with client.session.get(url) as stream, asyncio.timeout(5):
        assert await stream.content.read() == b""


async def test_stopping_ends_watches_and_releases_the_port() -> None:
    server = ApiServer()
    await server.start()
    async with aiohttp.ClientSession() as session, session.get(f"{server.url}/api/v1/pods?watch=1") as stream:
        async with asyncio.timeout(5):
            await server.stop()
            assert await stream.content.read() == b""
    restarted = ApiServer(port=int(server.url.rpartition(":")[2]))
    await restarted.start()
    await restarted.stop()
    await restarted.stop()


async def test_port_in_use_raises_with_a_hint(client: Client) -> None:
    port = int(client.server.url.rpartition(":")[2])
    with pytest.raises(ApiServerError, match=f"127.0.0.1:{port} is in use; choose another port"):
        await ApiServer(port=port).start()


async def test_kubeconfig_contains_the_server_url(client: Client, tmp_path: Path) -> None:
    path = client.server.write_kubeconfig(tmp_path / "deep" / "kubeconfig")
    config = yaml.safe_load(path.read_text())
    assert config["clusters"][0]["cluster"]["server"] == client.server.url
    assert path.stat().st_mode & 0o077 == 0


async def test_permissions_of_an_existing_kubeconfig_are_restricted(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("")
    path.chmod(0o644)
    client.server.write_kubeconfig(path)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Host", "rebound.example.com"),
        ("Host", "127.0.0.1.example.com:8080"),
        ("Host", "10.0.0.1"),
        ("Host", "[::2]:80"),
        ("Host", "["),
        ("Host", ""),
        ("Origin", "http://site.example.com"),
        ("Origin", "null"),
    ],
)
async def test_request_from_a_foreign_web_page_is_forbidden(client: Client, header: str, value: str) -> None:
    code, status = await client.send("POST", PODS, pod("a"), **{header: value})
    assert (code, status["reason"]) == (403, "Forbidden")
    assert f"{header} {value!r} is not a loopback address" in status["message"]
    assert (await client.send("GET", f"{PODS}/a"))[0] == 404


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Host", "localhost"),
        ("Host", "LOCALHOST:8080"),
        ("Host", "127.0.0.2:1"),
        ("Host", "[::1]:8080"),
        ("Origin", "http://localhost:3000"),
        ("Origin", "https://127.0.0.1"),
    ],
)
async def test_request_with_a_loopback_host_or_origin_is_served(client: Client, header: str, value: str) -> None:
    assert await client.send("GET", "/healthz", **{header: value}) == (200, "ok")


async def test_health_and_version(client: Client) -> None:
    assert (await client.send("GET", "/healthz")) == (200, "ok")
    assert (await client.send("GET", "/version"))[1]["gitVersion"].startswith("v1.37")


async def test_unexpected_exception_is_an_internal_error(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(client.server.api, "get", broken)
    code, response = await client.send("GET", f"{PODS}/a")
    assert (code, response["reason"]) == (500, "InternalError")
    monkeypatch.undo()
    assert (await client.send("POST", "/api/v1/namespaces/default/configmaps", config_map()))[0] == 201
