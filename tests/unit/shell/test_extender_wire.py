"""Wire format of extenders: requests exactly as Go encodes extender/v1, and parsing of responses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.api.preemption import Candidate
from pyscheduler.core.extenders.extender import (
    ExtenderFailed,
    ExtenderFilterResult,
    ExtenderPreemptionResult,
    ExtenderPrioritizeResult,
    Victims,
)
from pyscheduler.shell.extenders import wire
from pyscheduler.testing import pod

POD = b'{"metadata":{"name":"a"},"spec":{}}'
NODE = b'{"metadata":{"name":"n1"}}'
VICTIM = pod("v").build()
CANDIDATES = {"n1": Candidate((VICTIM,), 1)}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            wire.nodes_request(POD, [NODE, NODE]),
            b'{"Pod":%b,"Nodes":{"metadata":{},"items":[%b,%b]},"NodeNames":null}' % (POD, NODE, NODE),
            id="filter or prioritize, whole nodes",
        ),
        pytest.param(
            wire.names_request(POD, ("n1", "n2")),
            b'{"Pod":%b,"Nodes":null,"NodeNames":["n1","n2"]}' % POD,
            id="filter or prioritize, names",
        ),
        pytest.param(
            wire.victims_request(POD, CANDIDATES, lambda _: NODE),
            b'{"Pod":%b,"NodeNameToVictims":{"n1":{"Pods":[%b],"NumPDBViolations":1}},"NodeNameToMetaVictims":null}'
            % (POD, NODE),
            id="preempt, whole pods",
        ),
        pytest.param(
            wire.victims_request(POD, CANDIDATES, lambda _: None),
            b'{"Pod":%b,"NodeNameToVictims":{"n1":{"Pods":[],"NumPDBViolations":1}},"NodeNameToMetaVictims":null}'
            % POD,
            id="preempt, a victim that is gone",
        ),
        pytest.param(
            wire.meta_victims_request(POD, CANDIDATES),
            b'{"Pod":%b,"NodeNameToVictims":null,'
            b'"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"v"}],"NumPDBViolations":1}}}' % POD,
            id="preempt, UIDs",
        ),
        pytest.param(
            wire.binding_request(VICTIM, "n1"),
            b'{"PodName":"v","PodNamespace":"default","PodUID":"v","Node":"n1"}',
            id="bind",
        ),
    ],
)
def test_request_bodies(body: bytes, expected: bytes) -> None:
    assert body == expected


NODES = ("n1", "n2", "n3")


def names(body: bytes) -> ExtenderFilterResult:
    return wire.parse_filter_result(body, NODES, "http://e", names=True)


def nodes(body: bytes) -> ExtenderFilterResult:
    return wire.parse_filter_result(body, NODES, "http://e", names=False)


@pytest.mark.parametrize(
    ("read", "body", "expected"),
    [
        pytest.param(names, b'{"NodeNames":["n2","n1"]}', ExtenderFilterResult(("n2", "n1")), id="names"),
        pytest.param(
            names,
            b'{"Nodes":null,"NodeNames":["n1"],"FailedNodes":{"n2":"busy"},'
            b'"FailedAndUnresolvableNodes":{"n3":"broken"},"Error":""}',
            ExtenderFilterResult(("n1",), {"n2": "busy"}, {"n3": "broken"}),
            id="everything",
        ),
        pytest.param(
            nodes,
            b'{"Nodes":{"metadata":{},"items":[{"metadata":{"name":"n3"},"spec":{"taints":null}}]}}',
            ExtenderFilterResult(("n3",)),
            id="nodes",
        ),
        pytest.param(
            names,
            b'{"Nodes":{"items":[{"metadata":{"name":"n3"}}]}}',
            ExtenderFilterResult(("n3",)),
            id="nodes instead of names",
        ),
        pytest.param(nodes, b'{"NodeNames":["n1"]}', ExtenderFilterResult(()), id="names instead of nodes"),
        pytest.param(nodes, b'{"Nodes":{"items":null}}', ExtenderFilterResult(()), id="no nodes"),
        pytest.param(names, b"{}", ExtenderFilterResult(()), id="nothing"),
        pytest.param(names, b"null", ExtenderFilterResult(()), id="null"),
        pytest.param(
            names,
            b'{"nodenames":["n1"],"failednodes":{"n2":"x"}}',
            ExtenderFilterResult(("n1",), {"n2": "x"}),
            id="any case",
        ),
        pytest.param(
            names, b'{"NodeNames":["n1"],"More":{"of":"it"}}', ExtenderFilterResult(("n1",)), id="unknown keys"
        ),
        pytest.param(
            wire.parse_host_priorities,
            b'[{"Host":"n1","Score":10},{"host":"n2","score":3},{"Host":"n3"}]',
            ExtenderPrioritizeResult((("n1", 10), ("n2", 3), ("n3", 0))),
            id="scores",
        ),
        pytest.param(wire.parse_host_priorities, b"null", ExtenderPrioritizeResult(()), id="no scores"),
        pytest.param(
            wire.parse_preemption_result,
            b'{"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"v"},{"uid":"w"}],"NumPDBViolations":2},"n2":null}}',
            ExtenderPreemptionResult({"n1": Victims(("v", "w"), 2), "n2": Victims(())}),
            id="victims",
        ),
        pytest.param(wire.parse_preemption_result, b"{}", ExtenderPreemptionResult({}), id="no victims"),
        pytest.param(wire.parse_binding_result, b'{"Error":""}', None, id="bound"),
        pytest.param(wire.parse_binding_result, b"{}", None, id="bound, empty response"),
    ],
)
def test_responses(read: Callable[[bytes], object], body: bytes, expected: object) -> None:
    assert read(body) == expected


@pytest.mark.parametrize(
    ("read", "body", "message"),
    [
        pytest.param(names, b'{"NodeNames":["n1"],"Error":"out of order"}', "out of order", id="filter"),
        pytest.param(wire.parse_binding_result, b'{"error":"no such pod"}', "no such pod", id="bind"),
        pytest.param(
            names,
            b'{"NodeNames":["n1","n9"]}',
            'extender "http://e" claims a filtered node "n9" which is not found in the input node list',
            id="a node that was not sent",
        ),
    ],
)
def test_errors_of_an_extender(read: Callable[[bytes], object], body: bytes, message: str) -> None:
    with pytest.raises(ExtenderFailed) as failed:
        read(body)
    assert str(failed.value) == message


@pytest.mark.parametrize(
    ("read", "body"),
    [
        (names, b""),
        (names, b"<html>"),
        (names, b"[]"),
        (names, b'{"NodeNames":"n1"}'),
        (names, b'{"NodeNames":[1]}'),
        (names, b'{"FailedNodes":["n1"]}'),
        (names, b"\xff"),
        (nodes, b'{"Nodes":[{"metadata":{"name":"n1"}}]}'),
        (wire.parse_host_priorities, b"{}"),
        (wire.parse_host_priorities, b'[{"Host":"n1","Score":"high"}]'),
        (wire.parse_preemption_result, b'{"NodeNameToMetaVictims":["n1"]}'),
        (wire.parse_preemption_result, b'{"NodeNameToMetaVictims":{"n1":{"Pods":["v"]}}}'),
        (wire.parse_binding_result, b'{"Error":1}'),
    ],
)
def test_malformed_responses(read: Callable[[bytes], object], body: bytes) -> None:
    with pytest.raises(wire.UnreadableResponse):
        read(body)
