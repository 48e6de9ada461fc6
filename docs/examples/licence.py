"""LicenceToken: delay binding of a pod with a `licence` label until the Licence object has a free token."""

from pyscheduler.api import (
    POD,
    Action,
    ClusterEventWithHint,
    Cycle,
    NodeInfo,
    PermitPlugin,
    Pod,
    Rejection,
    ResourceKind,
    Wait,
)

LICENCE = ResourceKind("example.com", "v1", "licences", "Licence", namespaced=False)


class LicenceToken(PermitPlugin):
    name = "LicenceToken"
    watches = (LICENCE,)
    indexes = ("licence",)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (ClusterEventWithHint(LICENCE.kind, Action.ALL), ClusterEventWithHint(POD, Action.DELETE))

    def permit(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Wait | Rejection | None:
        name = pod.labels.get("licence")
        if name is None:
            return None
        licence = self.handle.objects[LICENCE].get(("", name))
        if licence is None:
            return Rejection(f"licence {name} does not exist")
        pods = self.handle.pods.by_label("licence", pod.namespace, name)
        used = sum(self.handle.pods.is_assigned_or_assumed(uid) for uid in pods)  # includes this pod, which is assumed
        return None if used <= licence["spec"]["tokens"] else Wait(60, f"no token of licence {name} is free")
