"""What a configuration file may say, field by field, with kube-scheduler's defaults.

`KubeSchedulerConfiguration` is kubescheduler.config.k8s.io/v1 of Kubernetes 1.36, whole. `PySchedulerConfiguration` has
what is ours alone; it is a second YAML document of the same file, so that kube-scheduler's files stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pyscheduler.config.fields import ZERO_IS_DEFAULT, Seconds

KUBE_API_VERSION = "kubescheduler.config.k8s.io/v1"
KUBE_KIND = "KubeSchedulerConfiguration"
PY_API_VERSION = "pyscheduler.io/v1"
PY_KIND = "PySchedulerConfiguration"
DEFAULT_SCHEDULER_NAME = "default-scheduler"
NodeOrder = Literal["EveryNode", "KubeScheduler"]


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """Which of several replicas schedules (component-base LeaderElectionConfiguration)."""

    leader_elect: bool = True
    lease_duration: Seconds = field(default=15.0, metadata=ZERO_IS_DEFAULT)
    renew_deadline: Seconds = field(default=10.0, metadata=ZERO_IS_DEFAULT)
    retry_period: Seconds = field(default=2.0, metadata=ZERO_IS_DEFAULT)
    resource_lock: str = field(default="leases", metadata=ZERO_IS_DEFAULT)
    resource_name: str = field(default="kube-scheduler", metadata=ZERO_IS_DEFAULT)
    resource_namespace: str = field(default="kube-system", metadata=ZERO_IS_DEFAULT)


@dataclass(frozen=True, slots=True)
class ClientConnection:
    """How the API server is reached (component-base ClientConnectionConfiguration); qps in requests a second."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = field(default="application/vnd.kubernetes.protobuf", metadata=ZERO_IS_DEFAULT)
    qps: float = field(default=50.0, metadata=ZERO_IS_DEFAULT)
    burst: int = field(default=100, metadata=ZERO_IS_DEFAULT)


@dataclass(frozen=True, slots=True)
class PluginRef:
    """A plugin by name; the weight counts at Score only, 0 and none are one thing."""

    name: str = ""
    weight: int | None = None


@dataclass(frozen=True, slots=True)
class PluginSet:
    """What a profile turns on and off at one extension point."""

    enabled: tuple[PluginRef, ...] = ()
    disabled: tuple[PluginRef, ...] = ()


@dataclass(frozen=True, slots=True)
class Plugins:
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


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """The arguments of one plugin, decoded into its own `Args` later on."""

    name: str = ""
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Profile:
    """A scheduling profile: pods choose it through spec.schedulerName."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


@dataclass(frozen=True, slots=True)
class ManagedResource:
    """An extended resource that an extender manages."""

    name: str = ""
    ignored_by_scheduler: bool = False


@dataclass(frozen=True, slots=True)
class ExtenderTLS:
    """TLS towards an extender; data fields are base64 text."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = ""


@dataclass(frozen=True, slots=True)
class Extender:
    """An HTTP service that is asked about nodes; an empty verb is a call that it does not serve."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = field(default=False, metadata={"key": "enableHTTPS"})
    tls_config: ExtenderTLS | None = None
    http_timeout: Seconds = field(default=5.0, metadata=ZERO_IS_DEFAULT)
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False


@dataclass(frozen=True, slots=True)
class KubeSchedulerConfiguration:
    """The whole of kube-scheduler's configuration."""

    parallelism: int = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: int | None = None
    """Given, nodes are taken in kube-scheduler's order and so many are scored, 0 adapting to how many there are."""
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    profiles: tuple[Profile, ...] = (Profile(DEFAULT_SCHEDULER_NAME),)
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False


@dataclass(frozen=True, slots=True)
class PluginImport:
    """A plugin class to be known by its import path `module:Class`; `name`, if given, must be the class's own."""

    reference: str = field(metadata={"key": "class"})
    name: str = ""


@dataclass(frozen=True, slots=True)
class PySchedulerConfiguration:
    """Settings that kube-scheduler does not have."""

    seed: int = 0
    """Chance is drawn from (seed, pod UID, attempt): the same seed makes the same choices."""
    plugins: tuple[PluginImport, ...] = ()
    node_order: NodeOrder | None = None
    """EveryNode: all nodes are scored, chance decides between equals. KubeScheduler: its order, sample and tie-break.

    Left out, a profile has kube-scheduler's order if it has a percentageOfNodesToScore, its own or the global one.
    """
