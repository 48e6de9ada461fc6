"""Dry run of a pod group's placement without some running pods, in steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyscheduler.api.nodes import Mask
from pyscheduler.api.pod import Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.api.steps import Steps
from pyscheduler.core.pod_groups import steps
from pyscheduler.core.pod_groups.placement import PlacementSearch
from pyscheduler.core.state.cluster import ClusterState


def place_without(
    state: ClusterState,
    search: PlacementSearch,
    members: Iterable[QueuedPod],
    removed: Iterable[Pod],
    within: Mask | None = None,
    fixed: Mapping[str, int] | None = None,
) -> Steps[dict[str, str] | None]:
    """Return the name of the node of each member that is placed without these pods, by UID; None if the group fails.

    `fixed` are the rows of the only nodes on which members may be placed, by UID. All of it is undone, also if the
    steps are closed.
    """
    with state.dry_run() as roll_back:
        for i, pod in enumerate(removed, 1):
            if i % steps.RECORDS_PER_STEP == 0:
                yield
            state.remove(pod.uid)
        try:
            fits = yield from (search.run(members, within) if fixed is None else search.repeat(members, fixed))
            nodes = {assumed.pod.uid: assumed.node_name for assumed in search.placed}
            yield from search.undo_in_steps()
        finally:
            search.undo()
        while roll_back(steps.RECORDS_PER_STEP):
            yield
    return nodes if fits else None
