"""What a well-formed configuration may still get wrong: ranges, names, things that must agree.

Checks and texts are those of kube-scheduler's ValidateKubeSchedulerConfiguration; plugins check their args themselves.
Everything is reported, nothing raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyscheduler.config.expand import ProfileSpec
from pyscheduler.config.fields import fields_of
from pyscheduler.config.problems import Report, under
from pyscheduler.config.types import (
    KUBE_API_VERSION,
    ClientConnection,
    Extender,
    KubeSchedulerConfiguration,
    LeaderElection,
    Plugins,
    PluginSet,
    Profile,
)

_REMOVED = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
_JITTER = 1.2
"""How much client-go's leader election stretches retryPeriod."""


def validate(configuration: KubeSchedulerConfiguration, report: Report) -> None:
    """Everything that can be said of a configuration before plugins are looked up."""
    _client_connection(configuration.client_connection, report)
    _leader_election(configuration.leader_election, report)
    if configuration.parallelism <= 0:
        report.add("parallelism", "should be an integer value greater than zero")
    _percentage(configuration.percentage_of_nodes_to_score, "", report)
    _backoff(configuration, report)
    _profiles(configuration.profiles, report)
    _extenders(configuration.extenders, report)


def validate_queue_sort(specs: Sequence[ProfileSpec], report: Report) -> None:
    """All profiles share one queue, so they must sort it alike."""
    first: tuple[str, object] | None = None
    for i, spec in enumerate(specs):
        path = f"profiles[{i}]"
        if report.has_problems(path) or len(spec.points["queueSort"]) != 1:
            continue
        name = spec.points["queueSort"][0].name
        args = spec.args.get(name)
        if first is None:
            first = name, args
        elif name != first[0]:
            text = f'must be the same for all profiles: it is "{name}" here and "{first[0]}" in the first'
            report.add(f"{path}.plugins.queueSort", text)
        elif args != first[1]:
            report.add(
                f"{path}.pluginConfig", f'queueSort must be the same for all profiles: "{name}" has other args here'
            )


def _client_connection(connection: ClientConnection, report: Report) -> None:
    if connection.burst < 0:
        report.add("clientConnection.burst", "must be non-negative")


def _leader_election(election: LeaderElection, report: Report) -> None:
    if not election.leader_elect:
        return
    times = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    for key, seconds in times.items():
        if seconds <= 0:
            report.add(f"leaderElection.{key}", "must be greater than zero")
    if election.lease_duration <= election.renew_deadline:
        report.add("leaderElection.leaseDuration", "must be greater than renewDeadline")
    if election.renew_deadline <= _JITTER * election.retry_period:
        report.add("leaderElection.renewDeadline", f"must be greater than retryPeriod * {_JITTER}")
    if election.resource_lock != "leases":
        report.add("leaderElection.resourceLock", 'resourceLock value must be "leases"')


def _percentage(percentage: int | None, path: str, report: Report) -> None:
    if percentage is not None and not 0 <= percentage <= 100:
        report.add(under(path, "percentageOfNodesToScore"), f"{percentage} is not in valid range [0-100]")


def _backoff(configuration: KubeSchedulerConfiguration, report: Report) -> None:
    if configuration.pod_initial_backoff_seconds <= 0:
        report.add("podInitialBackoffSeconds", "must be greater than 0")
    if configuration.pod_max_backoff_seconds < configuration.pod_initial_backoff_seconds:
        report.add("podMaxBackoffSeconds", "must be greater than or equal to podInitialBackoffSeconds")


def _profiles(profiles: Sequence[Profile], report: Report) -> None:
    first: dict[str, int] = {}
    for i, profile in enumerate(profiles):
        path = f"profiles[{i}]"
        name = profile.scheduler_name
        if not name:
            report.add(f"{path}.schedulerName", "is required; with several profiles each needs a name of its own")
        elif first.setdefault(name, i) != i:
            report.add(
                f"{path}.schedulerName", f'duplicate profile "{name}": profiles[{first[name]}] has the name already'
            )
        _percentage(profile.percentage_of_nodes_to_score, path, report)
        for point, plugin_set in _sets(profile.plugins):
            _plugin_set(plugin_set, f"{path}.plugins.{point}", report)
        for j, config in enumerate(profile.plugin_config):
            _plugin_name(config.name, f"{path}.pluginConfig[{j}].name", report)


def _sets(plugins: Plugins) -> Iterator[tuple[str, PluginSet]]:
    return ((f.key, getattr(plugins, f.name)) for f in fields_of(Plugins))


def _plugin_set(plugin_set: PluginSet, path: str, report: Report) -> None:
    for j, ref in enumerate(plugin_set.enabled):
        _plugin_name(ref.name, f"{path}.enabled[{j}].name", report)
        if ref.name == "*":
            report.add(f"{path}.enabled[{j}].name", '"*" can be disabled, not enabled; name the plugins')
    for j, ref in enumerate(plugin_set.disabled):
        if not ref.name:
            report.add(f"{path}.disabled[{j}].name", "is required")


def _plugin_name(name: str, path: str, report: Report) -> None:
    if not name:
        report.add(path, "is required")
    elif name in _REMOVED:
        version = f'"{KUBE_API_VERSION}"'
        report.add(path, f'"{name}" was invalid in version {version} (KubeSchedulerConfiguration is version {version})')


def _extenders(extenders: Sequence[Extender], report: Report) -> None:
    resources: set[str] = set()
    for i, extender in enumerate(extenders):
        path = f"extenders[{i}]"
        if extender.prioritize_verb and extender.weight <= 0:
            report.add(f"{path}.weight", "must have a positive weight applied to it")
        for j, resource in enumerate(extender.managed_resources):
            if resource.name in resources:
                text = f'duplicate extender managed resource name "{resource.name}"'
                report.add(f"{path}.managedResources[{j}].name", text)
            resources.add(resource.name)
    binders = sum(bool(e.bind_verb) for e in extenders)
    if binders > 1:
        report.add("extenders", f"found {binders} extenders implementing bind; only one extender can implement bind")
