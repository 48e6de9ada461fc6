"""What a configuration file may say, field by field, with kube-scheduler's defaults.

`KubeSchedulerConfiguration` is kubescheduler.config.k8s.io/v1 of Kubernetes 1.36, whole. `PySchedulerConfiguration` has
what is ours alone; it is a second YAML document of the same file, so that kube-scheduler's files stay as they are.
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
    """Base of everything that is written as a mapping."""


class LeaderElection(Section, frozen=True):
    """Which of several replicas schedules (component-base LeaderElectionConfiguration)."""

    leader_elect: bool = True
    lease_duration: Annotated[Seconds, ZERO_IS_DEFAULT] = 15.0
    renew_deadline: Annotated[Seconds, ZERO_IS_DEFAULT] = 10.0
    retry_period: Annotated[Seconds, ZERO_IS_DEFAULT] = 2.0
    resource_lock: Annotated[str, ZERO_IS_DEFAULT] = "leases"
    resource_name: Annotated[str, ZERO_IS_DEFAULT] = "kube-scheduler"
    resource_namespace: Annotated[str, ZERO_IS_DEFAULT] = "kube-system"


class ClientConnection(Section, frozen=True):
    """How the API server is reached (component-base ClientConnectionConfiguration); qps in requests a second."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: Annotated[str, ZERO_IS_DEFAULT] = "application/vnd.kubernetes.protobuf"
    qps: Annotated[float, ZERO_IS_DEFAULT] = 50.0
    burst: Annotated[Int32, ZERO_IS_DEFAULT] = 100


class PluginRef(Section, frozen=True):
    """A plugin by name; the weight counts at Score only, 0 and none are one thing."""

    name: str = ""
    weight: Int32 | None = None


class PluginSet(Section, frozen=True):
    """What a profile turns on and off at one extension point."""

    enabled: tuple[PluginRef, ...] = ()
    disabled: tuple[PluginRef, ...] = ()


class Plugins(Section, frozen=True):
    """The plugin sets of a profile; `multi_point` serves every point that a plugin has."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
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
    """The arguments of one plugin, decoded into its own `Args` later on."""

    name: str = ""
    args: dict[str, Any] = msgspec.field(default_factory=dict)


class Profile(Section, frozen=True):
    """A scheduling profile: pods choose it through spec.schedulerName."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class ManagedResource(Section, frozen=True):
    """An extended resource that an extender manages."""

    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTLS(Section, frozen=True):
    """TLS towards an extender; data fields are base64 text."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = ""


class Extender(Section, frozen=True):
    """An HTTP service that is asked about nodes; an empty verb is a call that it does not serve."""

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
    """The whole of kube-scheduler's configuration."""

    parallelism: Int32 = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool | None = None
    """Left out, it is as `enable_profiling`."""
    percentage_of_nodes_to_score: Int32 | None = None
    """Given, nodes are taken in kube-scheduler's order and so many are scored, 0 adapting to how many there are."""
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    profiles: tuple[Profile, ...] = (Profile(DEFAULT_SCHEDULER_NAME),)
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False

    def __post_init__(self) -> None:
        if self.enable_contention_profiling is None:
            msgspec.structs.force_setattr(self, "enable_contention_profiling", self.enable_profiling)


class PluginImport(Section, frozen=True):
    """A plugin class to be known by its import path `module:Class`; `name`, if given, must be the class's own."""

    reference: str = msgspec.field(name="class")
    name: str = ""


class PySchedulerConfiguration(Section, frozen=True):
    """Settings that kube-scheduler does not have."""

    seed: int = 0
    """Chance is drawn from (seed, pod UID, attempt): the same seed makes the same choices."""
    plugins: tuple[PluginImport, ...] = ()
    node_order: NodeOrder | None = None
    """EveryNode: all nodes are scored, chance decides between equals. KubeScheduler: its order, sample and tie-break.

    Left out, a profile has kube-scheduler's order if it has a percentageOfNodesToScore, its own or the global one.
    """
    binding_timeout: Seconds | None = None
    """How long PreBind, or Bind and PostBind, may take for a pod before they are called off; 0 for any time.

    Left out, half an hour, or a quarter longer than volumes may take to be bound.
    """
