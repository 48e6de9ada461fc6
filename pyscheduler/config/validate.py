"""Validation of decoded configurations: ranges, names, consistency.

Checks and messages are those of kube-scheduler's ValidateKubeSchedulerConfiguration; plugins validate their own args.
Problems are reported, not raised.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator, Sequence

from pyscheduler.api.resources import is_extended
from pyscheduler.config.durations import format_duration
from pyscheduler.config.expand import ProfileSpec
from pyscheduler.config.field_errors import REQUIRED, duplicate, invalid, required
from pyscheduler.config.fields import fields_of
from pyscheduler.config.problems import Report, under
from pyscheduler.config.types import (
    KUBE_API_VERSION,
    ClientConnection,
    ExtenderConfig,
    ExtenderTLS,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElection,
    Plugins,
    PluginSet,
)
from pyscheduler.intree._label_selectors import key_rules

_REMOVED = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
_JITTER = 1.2
"""Jitter factor of retryPeriod in client-go's leader election."""
_QUOTA = "requests."
"""Prefix of resource names in a ResourceQuota; names must stay valid with it."""


def validate(configuration: KubeSchedulerConfiguration, report: Report) -> None:
    """Report all problems that can be found without plugins."""
    _client_connection(configuration.client_connection, report)
    _leader_election(configuration.leader_election, report)
    if configuration.parallelism <= 0:
        text = invalid(configuration.parallelism, "should be an integer value greater than zero")
        report.add("parallelism", text)
    _percentage(configuration.percentage_of_nodes_to_score, "", report)
    _backoff(configuration, report)
    _profiles(configuration.profiles, report)
    _common_queue_sort(configuration.profiles, report)
    _extenders(configuration.extenders, report)


def validate_queue_sort(specs: Sequence[ProfileSpec], report: Report) -> None:
    """Report profiles that sort the queue differently: all profiles share one queue."""
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
                f"{path}.pluginConfig", f'queueSort must be the same for all profiles: "{name}" has different args here'
            )


def _client_connection(connection: ClientConnection, report: Report) -> None:
    if connection.burst < 0:
        report.add("clientConnection.burst", invalid(connection.burst, "must be non-negative"))


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
            report.add(f"leaderElection.{key}", invalid(format_duration(seconds), "must be greater than zero"))
    if election.lease_duration <= election.renew_deadline:
        # kube-scheduler shows renewDeadline here, too.
        text = invalid(format_duration(election.renew_deadline), "must be greater than `RenewDeadline`")
        report.add("leaderElection.leaseDuration", text)
    if 0 < election.renew_deadline <= _JITTER * election.retry_period:  # checked by client-go's leader elector
        text = invalid(format_duration(election.renew_deadline), f"must be greater than retryPeriod * {_JITTER}")
        report.add("leaderElection.renewDeadline", text)
    names = {
        "resourceLock": election.resource_lock,
        "resourceNamespace": election.resource_namespace,
        "resourceName": election.resource_name,
    }
    for key, name in names.items():
        if not name:
            report.add(f"leaderElection.{key}", REQUIRED)
    if election.resource_lock != "leases":
        text = invalid(election.resource_lock, 'resourceLock value must be "leases"')
        report.add("leaderElection.resourceLock", text)


def _percentage(percentage: int | None, path: str, report: Report) -> None:
    if percentage is not None and not 0 <= percentage <= 100:
        report.add(under(path, "percentageOfNodesToScore"), invalid(percentage, "not in valid range [0-100]"))


def _backoff(configuration: KubeSchedulerConfiguration, report: Report) -> None:
    initial, most = configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds
    if initial <= 0:
        report.add("podInitialBackoffSeconds", invalid(initial, "must be greater than 0"))
    if most < initial:
        text = invalid(most, "must be greater than or equal to PodInitialBackoffSeconds")
        report.add("podMaxBackoffSeconds", text)


def _profiles(profiles: Sequence[KubeSchedulerProfile], report: Report) -> None:
    first: dict[str, int] = {}
    for i, profile in enumerate(profiles):
        path = f"profiles[{i}]"
        name = profile.scheduler_name
        if not name:
            report.add(f"{path}.schedulerName", required("each of several profiles needs a name of its own"))
        elif first.setdefault(name, i) != i:
            text = f"{duplicate(name)}: profiles[{first[name]}] has it already"
            report.add(f"{path}.schedulerName", text)
        _percentage(profile.percentage_of_nodes_to_score, path, report)
        for point, plugin_set in _sets(profile.plugins):
            _plugin_set(plugin_set, f"{path}.plugins.{point}", report)
        for j, config in enumerate(profile.plugin_config):
            _plugin_name(config.name, f"{path}.pluginConfig[{j}]", report)


def _sets(plugins: Plugins) -> Iterator[tuple[str, PluginSet]]:
    return ((f.key, getattr(plugins, f.name)) for f in fields_of(Plugins))


def _plugin_set(plugin_set: PluginSet, path: str, report: Report) -> None:
    for j, ref in enumerate(plugin_set.enabled):
        _plugin_name(ref.name, f"{path}.enabled[{j}]", report)
        if ref.name == "*":
            report.add(f"{path}.enabled[{j}].name", '"*" can be disabled, not enabled; name the plugins')
    for j, ref in enumerate(plugin_set.disabled):
        if not ref.name:
            report.add(f"{path}.disabled[{j}].name", required("name a plugin, or all of them by *"))


def _plugin_name(name: str, path: str, report: Report) -> None:
    if not name:
        report.add(f"{path}.name", required("name a plugin"))
    elif name in _REMOVED:
        text = f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{KUBE_API_VERSION}")'
        report.add(path, invalid(name, text))


def _common_queue_sort(profiles: Sequence[KubeSchedulerProfile], report: Report) -> None:
    """Report profiles with different queueSort sets, which kube-scheduler compares literally."""
    first = profiles[0].plugins.queue_sort
    if len(first.enabled) > 1:
        text = invalid(len(first.enabled), "only one queue sort plugin can be enabled")
        report.add("profiles[0].plugins.queueSort.enabled", text)
    expected = _as_shown_by_kube_scheduler(first)
    for i, profile in enumerate(profiles[1:], 1):
        here = _as_shown_by_kube_scheduler(profile.plugins.queue_sort)
        if here != expected:
            text = invalid(here, "must be the same for all profiles")
            report.add(f"profiles[{i}].plugins.queueSort", text)


def _as_shown_by_kube_scheduler(plugin_set: PluginSet) -> dict[str, object]:
    """Return a plugin set as kube-scheduler prints it, without the weights of disabled plugins."""
    enabled = [{"Name": ref.name, "Weight": ref.weight or 0} for ref in plugin_set.enabled]
    disabled = [{"Name": ref.name, "Weight": 0} for ref in plugin_set.disabled]
    return {"Enabled": enabled or None, "Disabled": disabled or None}


def _extenders(extenders: Sequence[ExtenderConfig], report: Report) -> None:
    resources: set[str] = set()
    for i, extender in enumerate(extenders):
        path = f"extenders[{i}]"
        if extender.prioritize_verb and extender.weight <= 0:
            text = invalid(extender.weight, "must have a positive weight applied to it")
            report.add(f"{path}.weight", text)
        for j, resource in enumerate(extender.managed_resources):
            where = f"{path}.managedResources[{j}].name"
            for rule in _broken_rules(resource.name):
                report.add(where, invalid(resource.name, rule))
            if resource.name in resources:
                report.add(where, invalid(resource.name, "duplicate extender managed resource name"))
            resources.add(resource.name)
        _tls(extender.tls_config or ExtenderTLS(), f"{path}.tlsConfig", report)
    binders = sum(bool(e.bind_verb) for e in extenders)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        report.add("extenders", invalid(found, "only one extender can implement bind"))


def _broken_rules(resource: str) -> list[str]:
    """Return the messages of the naming rules for extended resources that a name violates."""
    rules = key_rules(resource)
    if rules:
        return rules
    extended = is_extended(resource) and not key_rules(_QUOTA + resource)
    return [] if extended else ["is an invalid extended resource name"]


def _tls(tls: ExtenderTLS, path: str, report: Report) -> None:
    for key, data in {"certData": tls.cert_data, "keyData": tls.key_data, "caData": tls.ca_data}.items():
        try:
            binascii.a2b_base64("".join(data.split()), strict_mode=True)
        except ValueError:
            report.add(f"{path}.{key}", "must be base64 text")
