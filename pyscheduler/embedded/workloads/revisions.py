"""ControllerRevisions of StatefulSets and DaemonSets: the history of their pod templates, for rollout and undo."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from pyscheduler.embedded.client.kinds import REVISIONS
from pyscheduler.embedded.objects import Json, labels_of
from pyscheduler.embedded.workloads.actions import Action, Create, Delete, Patch
from pyscheduler.embedded.workloads.deployment import HISTORY_LIMIT, template_hash
from pyscheduler.embedded.workloads.objects import key_of, owned_by, uid_of

HASH_LABEL = "controller-revision-hash"


class RevisionHistory(NamedTuple):
    """The name of the revision of the current template, and what keeps the history."""

    update: str
    actions: list[Action]


def revision_name(owner: Json) -> str:
    """Return the name of the revision of the owner's template."""
    return f"{owner['metadata']['name']}-{template_hash(owner['spec']['template'])}"


def revision_of(pod: Json) -> str:
    """Return the label with the revision from which a pod was created, "" if it has none."""
    return str(labels_of(pod).get(HASH_LABEL, ""))


def template_of(name: str, revisions: Sequence[Json]) -> Json | None:
    """Return the pod template of a revision, None if there is no such revision."""
    found = next((each for each in revisions if each["metadata"]["name"] == name), None)
    return None if found is None else {k: v for k, v in found["data"]["spec"]["template"].items() if k != "$patch"}


def keep_history(owner: Json, revisions: Sequence[Json], live: Collection[str]) -> RevisionHistory:
    """Return what creates the revision of the owner's template, makes it the newest, and deletes old ones.

    `live` are the names of revisions that pods or the status refer to; they are kept.
    """
    name, newest = revision_name(owner), max((each["revision"] for each in revisions), default=0)
    present = next((each for each in revisions if each["metadata"]["name"] == name), None)
    actions: list[Action] = []
    if present is None:
        actions.append(Create(REVISIONS, _revision(owner, name, newest + 1), ignore_already_exists=True))
    elif present["revision"] < newest:  # the template of an earlier revision is back
        actions.append(Patch(REVISIONS, key_of(present), {"revision": newest + 1}))
    limit = owner["spec"].get("revisionHistoryLimit")
    unused = [each for each in revisions if each["metadata"]["name"] not in {name, *live}]
    surplus = len(unused) - (HISTORY_LIMIT if limit is None else int(limit))
    for each in sorted(unused, key=lambda each: int(each["revision"]))[: max(0, surplus)]:
        actions.append(Delete(REVISIONS, key_of(each), uid_of(each)))
    return RevisionHistory(name, actions)


def _revision(owner: Json, name: str, number: int) -> Json:
    template = owner["spec"]["template"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "labels": {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: name},
            "ownerReferences": [owned_by(owner, owner["kind"], "apps/v1")],
        },
        "data": {"spec": {"template": {**template, "$patch": "replace"}}},
        "revision": number,
    }
