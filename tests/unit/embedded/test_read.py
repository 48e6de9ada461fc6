"""Lists: resource versions, pages, selectors, and invalid combinations of options."""

from __future__ import annotations

import base64

import pytest

from pyscheduler.embedded.verbs.read import ListPage, list_options

from .builders import Cluster, api_error, config_map, fields_of, pod


def page(cluster: Cluster, plural: str = "configmaps", **query: str) -> ListPage:
    resource = cluster.api.resource(plural)
    return cluster.api.list(resource, "default", list_options(resource, {k.rstrip("_"): v for k, v in query.items()}))


def names(found: ListPage) -> list[str]:
    return [version.key[1] for version in found.items]


def filled(count: int = 5, history: int = 1000) -> Cluster:
    cluster = Cluster(history)
    cluster.api.delete(cluster.api.resource("configmaps"), "default", "kube-root-ca.crt")
    for number in range(count):
        cluster.create("configmaps", config_map(f"c{number}"))
    return cluster


def test_pages_are_consistent_despite_changes_between_them() -> None:
    cluster = filled()
    first = page(cluster, limit="2")
    assert (names(first), first.remaining) == (["c0", "c1"], 3)
    cluster.create("configmaps", config_map("c1a"))
    cluster.api.delete(cluster.api.resource("configmaps"), "default", "c3")
    second = page(cluster, limit="2", continue_=first.token)
    third = page(cluster, limit="2", continue_=second.token)
    assert names(second) + names(third) == ["c2", "c3", "c4"]
    assert first.revision == second.revision == third.revision
    assert third.token == ""


def test_continue_token_expires_with_compaction() -> None:
    cluster = filled()
    first = page(cluster, limit="2")
    cluster.create("configmaps", config_map("later"))
    cluster.api.state.store.compact()
    error = api_error(lambda: page(cluster, limit="2", continue_=first.token))
    assert (error.code, error.reason) == (410, "Expired")


@pytest.mark.parametrize("token", ["nonsense", base64.urlsafe_b64encode(b'{"rv": 1}').decode()])
def test_invalid_continue_token_is_a_bad_request(token: str) -> None:
    assert api_error(lambda: page(filled(), continue_=token)).code == 400


def test_exact_resource_version_is_served_from_history() -> None:
    cluster = filled(2)
    then = str(cluster.api.state.store.revision)
    cluster.create("configmaps", config_map("later"))
    exact = page(cluster, resourceVersion=then, resourceVersionMatch="Exact")
    assert (names(exact), exact.revision) == (["c0", "c1"], int(then))
    assert len(page(cluster, resourceVersion=then).items) == 3
    assert len(page(cluster, resourceVersion=then, resourceVersionMatch="NotOlderThan").items) == 3
    assert len(page(cluster, resourceVersion="0", limit="1").items) == 3


def test_future_resource_version_is_too_large() -> None:
    assert api_error(lambda: page(filled(), resourceVersion="99999")).code == 504


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"resourceVersionMatch": "Exact"}, "resourceVersionMatch"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, "resourceVersionMatch"),
        ({"resourceVersionMatch": "Newest", "resourceVersion": "1"}, "resourceVersionMatch"),
        ({"sendInitialEvents": "true"}, "sendInitialEvents"),
        ({"sendInitialEvents": "true", "watch": "1"}, "resourceVersionMatch"),
        ({"watch": "true", "resourceVersion": "1", "resourceVersionMatch": "Exact"}, "resourceVersionMatch"),
    ],
)
def test_contradictory_options_are_invalid(query: dict[str, str], field: str) -> None:
    assert fields_of(api_error(lambda: page(filled(), **query)))[0] == field


@pytest.mark.parametrize("query", [{"limit": "many"}, {"resourceVersion": "new"}, {"labelSelector": "a in"}])
def test_malformed_options_are_bad_requests(query: dict[str, str]) -> None:
    assert api_error(lambda: page(filled(), **query)).code == 400


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"fieldSelector": "spec.nodeName=n1"}, ["bound"]),
        ({"fieldSelector": "spec.nodeName="}, ["free"]),
        ({"fieldSelector": "spec.schedulerName=mine"}, ["free"]),
        ({"fieldSelector": "status.phase=Pending,metadata.name!=free"}, ["bound"]),
        ({"labelSelector": "app in (x,y)"}, ["bound"]),
        ({"fieldSelector": "metadata.namespace=other"}, []),
    ],
)
def test_selectors_filter_pods(query: dict[str, str], expected: list[str]) -> None:
    cluster = Cluster()
    cluster.create("pods", pod("bound", labels={"app": "x"}, nodeName="n1"))
    cluster.create("pods", pod("free", schedulerName="mine"))
    assert names(page(cluster, "pods", **query)) == expected
