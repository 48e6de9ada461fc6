"""Backfill by learnt run times: pods run as long as those of earlier runs of their workload."""

from __future__ import annotations

import copy

import pytest

from pyscheduler.config.problems import ConfigError
from tests.scenarios.batch.cluster import CONFIG, Cluster, with_queue_args
from tests.scenarios.batch.manifests import VOLCANO, Manifest, gang, pod, slots

LEARNT = with_queue_args(runTimes="Learnt")


def of(owner: str, manifest: Manifest, kind: str = "Job", api: str = "batch/v1") -> Manifest:
    """Return a pod of a Job."""
    changed = copy.deepcopy(manifest)
    reference = {"apiVersion": api, "kind": kind, "name": owner, "uid": f"{kind} {owner}", "controller": True}
    changed["metadata"]["ownerReferences"] = [reference]
    return changed


def learnt(*runs: tuple[str, float], config: str = LEARNT) -> Cluster:
    """Return a cluster of 4 slots in which Jobs of one pod have run for some seconds, one after the other."""
    cluster = Cluster(*slots(4), config=config)
    for owner, seconds in runs:
        cluster.apply_all(of(owner, pod(f"{owner}-pod")), runs=seconds)
        cluster.advance(seconds + 10)
    return cluster


def backfilled(cluster: Cluster, *small: Manifest) -> list[str]:
    """Return which of the pods start before a gang of 4, which waits for 3 pods that declare to run for 100 s."""
    cluster.submit(*(pod(f"runs{i}", runs=100) for i in range(3)))
    cluster.submit(gang("head", 4, api=VOLCANO))
    assert cluster.members("head") == 0
    cluster.submit(*small)
    return [each["metadata"]["name"] for each in small if f"default/{each['metadata']['name']}" in cluster.bindings]


def test_pod_starts_before_the_first_group_if_earlier_runs_were_short_enough() -> None:
    cluster = learnt(("report-28000001", 30), ("report-28000002", 40))
    assert backfilled(cluster, of("report-28000003", pod("next"))) == ["next"]


def test_pod_waits_if_earlier_runs_were_too_long() -> None:
    cluster = learnt(("report-28000001", 120), ("report-28000002", 40))
    assert backfilled(cluster, of("report-28000003", pod("next"))) == []
    assert cluster.reason("next") == "RoomReserved"


def test_pod_waits_if_its_workload_has_not_run_yet() -> None:
    cluster = learnt(("report-28000001", 30))
    assert backfilled(cluster, of("other-28000003", pod("next")), pod("alone")) == []


def test_only_declared_run_times_count_by_default() -> None:
    cluster = learnt(("report-28000001", 30), config=CONFIG.read_text(encoding="utf-8"))
    assert backfilled(cluster, of("report-28000003", pod("next"))) == []


def test_declared_run_time_precedes_the_learnt_one() -> None:
    cluster = learnt(("report-28000001", 30))
    assert backfilled(cluster, of("report-28000002", pod("next", runs=200))) == []


def test_pods_of_services_never_end() -> None:
    cluster = learnt(("web-5d4f7c", 30))
    service = of("web-5d4f7c", pod("web"), kind="ReplicaSet", api="apps/v1")
    assert backfilled(cluster, service) == []


@pytest.mark.parametrize("phase", ["Failed", ""], ids=["failed", "deleted"])
def test_nothing_is_learnt_from_pods_that_have_not_succeeded(phase: str) -> None:
    cluster = learnt()
    cluster.submit(of("report-1", pod("broken")))
    cluster.advance(5)
    if phase:
        cluster.end("broken", phase)
    else:
        cluster.delete("Pod", "broken")
    cluster.advance(5)
    assert backfilled(cluster, of("report-2", pod("next"))) == []


def test_longest_of_the_last_runs_counts() -> None:
    long_ago = [("report-1", 150), *((f"report-{i}", 20) for i in range(2, 7))]
    assert backfilled(learnt(*long_ago), of("report-7", pod("next"))) == ["next"]
    assert backfilled(learnt(*long_ago[:-1]), of("report-7", pod("next"))) == []


def test_reservation_has_a_time_if_run_times_are_learnt() -> None:
    cluster = learnt(("report-1", 50))
    cluster.submit(*(of("report-2", pod(f"runs{i}")) for i in range(3)))
    cluster.submit(gang("head", 4, api=VOLCANO))
    cluster.submit(pod("long", runs=60))
    cluster.submit(pod("short", runs=40))
    assert "default/short" in cluster.bindings
    assert "default/long" not in cluster.bindings
    assert "would delay pod group default/head, which starts at the latest in 50 s" in cluster.message("long")


def test_pod_that_runs_longer_than_learnt_may_run_forever() -> None:
    cluster = learnt(("report-1", 50))
    cluster.submit(*(of("report-2", pod(f"runs{i}")) for i in range(3)))
    cluster.advance(60)
    cluster.submit(gang("head", 4, api=VOLCANO))
    cluster.submit(pod("next"))
    assert "which starts when pods have ended that declare no run time" in cluster.message("next")


def test_learnt_run_times_are_lost_with_a_restart() -> None:
    cluster = learnt(("report-28000001", 30))
    cluster.restart()
    assert backfilled(cluster, of("report-28000003", pod("next"))) == []


def test_other_run_times_are_rejected() -> None:
    message = 'runTimes: Unsupported value: "Guessed": supported values: "Declared", "Learnt"'
    with pytest.raises(ConfigError, match=message):
        Cluster(config=with_queue_args(runTimes="Guessed"))
