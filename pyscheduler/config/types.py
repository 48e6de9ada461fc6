"""Configuration file format, with kube-scheduler's defaults.

`KubeSchedulerConfiguration` is kubescheduler.config.k8s.io/v1 of Kubernetes 1.37, complete. `PySchedulerConfiguration`
holds our own settings in a second YAML document, so that kube-scheduler's files can be used unchanged.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from pyscheduler.config.fields import ZERO_IS_DEFAULT, Int32, Seconds

KUBE_API_VERSION = "kubescheduler.config.k8s.io/v1"
KUBE_KIND = "KubeSchedulerConfiguration"
PY_API_VERSION = "pyscheduler.io/v1"
PY_KIND = "PySchedulerConfiguration"
DEFAULT_SCHEDULER_NAME = "default-scheduler"
NodeOrder = Literal["EveryNode", "KubeScheduler"]


class Section(msgspec.Struct, frozen=True, rename="camel"):
    """Base of all mappings."""


class LeaderElection(Section, frozen=True):
    """Leader election (component-base LeaderElectionConfiguration)."""

    leader_elect: bool = True
    lease_duration: Annotated[Seconds, ZERO_IS_DEFAULT] = 15.0
    renew_deadline: Annotated[Seconds, ZERO_IS_DEFAULT] = 10.0
    retry_period: Annotated[Seconds, ZERO_IS_DEFAULT] = 2.0
    resource_lock: Annotated[str, ZERO_IS_DEFAULT] = "leases"
    resource_name: Annotated[str, ZERO_IS_DEFAULT] = "kube-scheduler"
    resource_namespace: Annotated[str, ZERO_IS_DEFAULT] = "kube-system"


class ClientConnection(Section, frozen=True):
    """API client settings (component-base ClientConnectionConfiguration); qps in requests per second."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: Annotated[str, ZERO_IS_DEFAULT] = "application/vnd.kubernetes.protobuf"
    qps: Annotated[float, ZERO_IS_DEFAULT] = 50.0
    burst: Annotated[Int32, ZERO_IS_DEFAULT] = 100


class PluginRef(Section, frozen=True):
    """Reference of a plugin; the weight applies to Score only, 0 is unset."""

    name: str = ""
    weight: Int32 | None = None


class PluginSet(Section, frozen=True):
    """Enabled and disabled plugins of an extension point."""

    enabled: tuple[PluginRef, ...] = ()
    disabled: tuple[PluginRef, ...] = ()


class Plugins(Section, frozen=True):
    """Plugin sets of a profile; `multi_point` applies to all extension points of a plugin."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pod_group: PluginSet = PluginSet()
    quota: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    placement_feasible: PluginSet = PluginSet()
    pod_group_post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()


class PluginConfig(Section, frozen=True):
    """Arguments of one plugin, before they are decoded into its `Args`."""

    name: str = ""
    args: dict[str, Any] = msgspec.field(default_factory=dict)


class KubeSchedulerProfile(Section, frozen=True):
    """Scheduling profile, selected by spec.schedulerName."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class ManagedResource(Section, frozen=True):
    """Extended resource that an extender manages."""

    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTLS(Section, frozen=True):
    """TLS settings of an extender; data fields are base64."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = ""


class ExtenderConfig(Section, frozen=True):
    """HTTP extender; an empty verb disables the call."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLS | None = None
    http_timeout: Annotated[Seconds, ZERO_IS_DEFAULT] = 5.0
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False


class KubeSchedulerConfiguration(Section, frozen=True):
    """Configuration of kube-scheduler."""

    parallelism: Int32 = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool | None = None
    """Defaults to `enable_profiling`."""
    percentage_of_nodes_to_score: Int32 | None = None
    """Share of nodes to score, in kube-scheduler's node order; 0 adapts it to the cluster size."""
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    profiles: tuple[KubeSchedulerProfile, ...] = (KubeSchedulerProfile(DEFAULT_SCHEDULER_NAME),)
    extenders: tuple[ExtenderConfig, ...] = ()
    delay_cache_until_active: bool = False

    def __post_init__(self) -> None:
        if self.enable_contention_profiling is None:
            msgspec.structs.force_setattr(self, "enable_contention_profiling", self.enable_profiling)


class PluginImport(Section, frozen=True):
    """Plugin class by import path `module:Class`; `name`, if set, must equal the class's."""

    reference: str = msgspec.field(name="class")
    name: str = ""


class PySchedulerConfiguration(Section, frozen=True):
    """Settings without a counterpart in kube-scheduler."""

    seed: int = 0
    """Seed of tie-breaking, which depends on (seed, pod UID, attempt): equal seeds give equal decisions."""
    plugins: tuple[PluginImport, ...] = ()
    node_order: NodeOrder | None = None
    """EveryNode: score all nodes, break ties by seed. KubeScheduler: its node order, sampling and tie-breaking.

    By default a profile uses kube-scheduler's order if percentageOfNodesToScore is set for it or globally.
    """
    result_cache: bool = True
    """False runs every plugin on every node in every attempt, to find out if a cached result is wrong."""
    binding_timeout: Seconds | None = None
    """Timeout of PreBind, and of Bind with PostBind, for one pod; 0 is no limit.

    The default is 30 minutes, or the timeout of volume binding plus 15 minutes if that is longer.
    """
