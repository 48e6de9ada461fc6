"""PodTopologySpread's filter: skew, counted pods and eligible nodes."""

from __future__ import annotations

import pytest

from pyscheduler.api import SKIP_SIGNATURE_GROUP
from pyscheduler.api.outcome import StatusError
from pyscheduler.intree import PodTopologySpread
from pyscheduler.testing import NodeBuilder, PodBuilder, node, pod

from .cluster import Reasons, build, cycle, reasons, rejections, table
from .spreading import (
    EVERYTHING,
    HOSTNAME,
    IN_A,
    IN_A_TOO,
    IN_B,
    LACKING,
    NOWHERE,
    SOFT,
    UNEVEN,
    ZONES,
    Manifest,
    placed,
    spread,
    web,
)

BOTH = (spread(), spread("rack"))


def expressed(operator: str, *values: str, key: str = "app") -> Manifest:
    expression: Manifest = {"key": key, "operator": operator}
    return {"matchExpressions": [{**expression, "values": list(values)} if values else expression]}


@pytest.mark.parametrize(
    ("of", "others", "expected"),
    [
        pytest.param(web(spread()), [], [None, None, None], id="no pods yet"),
        pytest.param(
            web(spread()), placed("a1"), [UNEVEN, UNEVEN, None], id="a zone is ahead by one, in all its nodes"
        ),
        pytest.param(web(spread(skew=2)), placed("a1"), [None, None, None], id="two are allowed"),
        pytest.param(web(spread(skew=2)), placed("a1", "a2"), [UNEVEN, UNEVEN, None], id="and not three"),
        pytest.param(web(spread()), placed("a1", "b1"), [None, None, None], id="even"),
        pytest.param(web(spread(HOSTNAME)), placed("a1", "b1"), [UNEVEN, None, UNEVEN], id="over hosts"),
        pytest.param(web(spread(), spread(HOSTNAME)), placed("b1", "b1", "a1"), [UNEVEN, None, UNEVEN], id="both"),
        pytest.param(
            web(spread()).label("app", "db"), placed("a1"), [None, None, None], id="pod does not match its own selector"
        ),
        pytest.param(
            web(spread()).label("app", "db"),
            placed("a1", "a2"),
            [UNEVEN, UNEVEN, None],
            id="other pod may not exceed the skew",
        ),
        pytest.param(
            web(spread(selector=None)), placed("a1", "a1"), [None, None, None], id="missing selector matches no pod"
        ),
        pytest.param(
            web(spread(selector=EVERYTHING)), placed("a1", "a1"), [None, None, None], id="empty selector counts no pod"
        ),
        pytest.param(
            web(spread(selector=expressed("In", "web", "www"))), placed("a1"), [UNEVEN, UNEVEN, None], id="In"
        ),
        pytest.param(web(spread(selector=expressed("NotIn", "web"))), placed("a1", "a1"), [None] * 3, id="NotIn"),
        pytest.param(web(spread(selector=expressed("Exists"))), placed("a1"), [UNEVEN, UNEVEN, None], id="Exists"),
        pytest.param(
            web(spread(selector=expressed("DoesNotExist", key="x"))),
            placed("a1"),
            [UNEVEN, UNEVEN, None],
            id="DoesNotExist",
        ),
        pytest.param(web(spread()), [pod("db").on("a1")], [None, None, None], id="other pods"),
        pytest.param(
            web(spread()), [pod("o").namespace("n").label("app", "web").on("a1")], [None] * 3, id="another namespace"
        ),
        pytest.param(
            web(spread()),
            [pod("x").label("app", "web").on("a1").deleting()],
            [None] * 3,
            id="terminating pod does not count",
        ),
        pytest.param(
            web(spread(minDomains=2)), placed("a1", "b1"), [None, None, None], id="as many zones as minDomains"
        ),
        pytest.param(
            web(spread(minDomains=3)), placed("a1", "b1"), [UNEVEN] * 3, id="fewer zones than minDomains: minimum is 0"
        ),
        pytest.param(
            web(spread(matchLabelKeys=["v", "absent"])).label("v", "2"),
            [placed("a1")[0].label("v", "1")],
            [None] * 3,
            id="matchLabelKeys: another version",
        ),
        pytest.param(
            web(spread(matchLabelKeys=["v"])).label("v", "2"),
            [placed("a1")[0].label("v", "2")],
            [UNEVEN, UNEVEN, None],
            id="matchLabelKeys: the same version",
        ),
        pytest.param(
            web(spread(matchLabelKeys=["app"], selector=EVERYTHING)),
            placed("a1"),
            [UNEVEN, UNEVEN, None],
            id="matchLabelKeys make a selector of an empty one",
        ),
        pytest.param(
            web(spread(matchLabelKeys=["app"], selector=None)),
            placed("a1"),
            [None] * 3,
            id="matchLabelKeys with missing selector",
        ),
    ],
)
def test_filter_by_max_skew(of: PodBuilder, others: list[PodBuilder], expected: list[Reasons]) -> None:
    assert reasons(build(PodTopologySpread), of, ZONES, others) == expected


RACKED = [IN_A.label("rack", "1"), IN_B.label("rack", "2"), IN_A_TOO]


@pytest.mark.parametrize(
    ("of", "nodes", "others", "expected"),
    [
        pytest.param(web(spread()), [IN_A, IN_B, NOWHERE], [], [None, None, LACKING], id="no zone at all"),
        pytest.param(
            web(spread()), [IN_A, node("blank").zone("")], placed("a1"), [UNEVEN, None], id="the empty zone is a zone"
        ),
        pytest.param(
            web(*BOTH), RACKED, placed("a2", "a2"), [None, None, LACKING], id="its pods do not count elsewhere"
        ),
        pytest.param(web(*BOTH), RACKED, placed("a1"), [UNEVEN, None, UNEVEN], id="constraint on zone first"),
        pytest.param(
            web(*reversed(BOTH)), RACKED, placed("a1"), [UNEVEN, None, LACKING], id="constraint on rack first"
        ),
        pytest.param(web(spread("rack")), [IN_A, IN_B], [], [LACKING, LACKING], id="a topology that no node has"),
    ],
)
def test_nodes_without_topology_key_are_rejected_and_not_counted(
    of: PodBuilder, nodes: list[NodeBuilder], others: list[PodBuilder], expected: list[Reasons]
) -> None:
    assert reasons(build(PodTopologySpread), of, nodes, others) == expected


SSD_IN_A, HDD_IN_B = IN_A.label("disk", "ssd"), IN_B.label("disk", "hdd")
TAINTED_B = IN_B.taint("k", "v")
WANTS_SSD = expressed("In", "ssd", key="disk")


@pytest.mark.parametrize(
    ("of", "nodes", "expected"),
    [
        pytest.param(
            web(spread()).node_selector(disk="ssd"), [SSD_IN_A, HDD_IN_B], [None, None], id="excluded by nodeSelector"
        ),
        pytest.param(
            web(spread()).node_affinity(WANTS_SSD), [SSD_IN_A, HDD_IN_B], [None, None], id="excluded by node affinity"
        ),
        pytest.param(
            web(spread(nodeAffinityPolicy="Honor")).node_affinity(WANTS_SSD),
            [SSD_IN_A, HDD_IN_B],
            [None, None],
            id="Honor",
        ),
        pytest.param(
            web(spread(nodeAffinityPolicy="Ignore")).node_affinity(WANTS_SSD).node_selector(disk="ssd"),
            [SSD_IN_A, HDD_IN_B],
            [UNEVEN, None],
            id="Ignore",
        ),
        pytest.param(web(spread()), [IN_A, TAINTED_B], [UNEVEN, None], id="taints are ignored"),
        pytest.param(web(spread(nodeTaintsPolicy="Ignore")), [IN_A, TAINTED_B], [UNEVEN, None], id="taints Ignore"),
        pytest.param(web(spread(nodeTaintsPolicy="Honor")), [IN_A, TAINTED_B], [None, None], id="taints Honor"),
        pytest.param(
            web(spread(nodeTaintsPolicy="Honor")).tolerates("k", "v"), [IN_A, TAINTED_B], [UNEVEN, None], id="tolerated"
        ),
        pytest.param(
            web(spread(nodeTaintsPolicy="Honor")),
            [IN_A, IN_B.taint("k", "v", "PreferNoSchedule")],
            [UNEVEN, None],
            id="soft taints do not matter",
        ),
        pytest.param(
            web(spread(nodeTaintsPolicy="Honor")),
            [IN_A, IN_B.taint("k", "v", "NoExecute")],
            [None, None],
            id="NoExecute",
        ),
    ],
)
def test_inclusion_policies_decide_which_domains_count(
    of: PodBuilder, nodes: list[NodeBuilder], expected: list[Reasons]
) -> None:
    # One pod in zone a: it is ahead only if zone b counts, without pods.
    assert reasons(build(PodTopologySpread), of, nodes, placed("a1")) == expected


def test_skew_is_resolvable_and_missing_label_is_not() -> None:
    refused = rejections(build(PodTopologySpread), web(spread()), [IN_A, IN_B, NOWHERE], placed("a1"))
    assert [r and r.resolvable for r in refused] == [True, None, False]


@pytest.mark.parametrize("of", [web(), web(spread(when=SOFT)), pod()])
def test_pre_filter_skips_pod_without_hard_constraints(of: PodBuilder) -> None:
    assert build(PodTopologySpread).pre_filter(cycle(), of.build(), table(ZONES)) is SKIP_SIGNATURE_GROUP


def test_invalid_selector_raises_with_its_reason() -> None:
    plugin = build(PodTopologySpread)
    text = 'get constraints from pod: obtaining pod\'s hard topology spread constraints: "Near" is not a valid label'
    with pytest.raises(StatusError, match=text):
        plugin.pre_filter(cycle(), web(spread(selector=expressed("Near"))).build(), table(ZONES))
    text = 'calculating preScoreState: obtaining pod\'s soft topology spread constraints: key: Invalid value: "a b"'
    with pytest.raises(StatusError, match=text):
        plugin.pre_score(cycle(), web(spread(when=SOFT, selector=expressed("Exists", key="a b"))).build(), table(ZONES))
