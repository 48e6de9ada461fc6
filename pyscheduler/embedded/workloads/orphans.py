"""Release of tracked pods without a controller: the Job is deleted or finished, or the pod never had a node."""

from __future__ import annotations

from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.workloads.actions import Action, Patch
from pyscheduler.embedded.workloads.jobs.finish_reason import is_finished
from pyscheduler.embedded.workloads.jobs.pods import is_terminating, is_tracked, remove_finalizer_action
from pyscheduler.embedded.workloads.objects import key_of, uid_of
from pyscheduler.kube.paths import PODS


def release_orphan(pod: Json, job: Json | None) -> list[Action]:
    """Return the actions for a pod; `job` is its owner, None if it does not exist (any more)."""
    if not is_tracked(pod):
        return []
    if job is None or is_finished(job):
        return [remove_finalizer_action(pod)]
    if is_terminating(pod) and not pod["spec"].get("nodeName"):
        # No kubelet will ever report its end, and its Job may wait for it (podgc does this in a real cluster).
        patch = {"metadata": {"uid": uid_of(pod)}, "status": {"phase": "Failed"}}
        return [Patch(PODS, key_of(pod), patch, "status", "strategic-merge")]
    return []
