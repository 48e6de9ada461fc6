"""PostFilter of a preemption plugin without evictions, as extenders and reports need it."""

from __future__ import annotations

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.outcome import ClearNomination, Code, Nominate, Rejection, StatusError
from pyscheduler.api.plugin import PostFilterPlugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.preemption import PreemptionPlugin, PreemptionSearch


class PreemptionDryRun(PostFilterPlugin):
    """Wrapper of a preemption plugin that searches all nodes and stores the search without evicting anything."""

    def __init__(self, plugin: PreemptionPlugin) -> None:
        super().__init__(plugin.args, plugin.handle)
        self.name = plugin.name  # type: ignore[misc]  # per instance, not per class
        self.plugin = plugin
        self.result: PreemptionSearch | None = None

    def search(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> PreemptionSearch:
        """Return the plugin's search, made at the first call."""
        if self.result is None:
            self.result = self.plugin.search(cycle, pod, diagnosis)
        return self.result

    def post_filter(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> Nominate | ClearNomination | Rejection:
        search = self.search(cycle, pod, diagnosis)
        if search.status is Code.SUCCESS:
            return Nominate(search.nominated_node or "", search.victims, search.message)
        if search.status is Code.ERROR:
            raise StatusError(search.message)
        resolvable = search.status is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        rejection = Rejection(*([search.message] if search.message else []), resolvable=resolvable)
        return ClearNomination(rejection) if search.nominated_node == "" else rejection
