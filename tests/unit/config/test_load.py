"""Usual configuration files of kube-scheduler and ours, loaded and shown."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.config.load import ConfigError, LoadedConfig, default, from_value, load, loads, show
from pyscheduler.config.types import ClientConnection, KubeSchedulerConfiguration, LeaderElection
from tests.unit.config.files import config, names, profile, weights

FOLDER = Path(__file__).parents[3] / "config"
FILES = sorted(FOLDER.glob("*.yaml"))

SEVERAL_PROFILES = config("""
    profiles:
      - schedulerName: default-scheduler
      - schedulerName: no-scoring-scheduler
        plugins:
          preScore:
            disabled:
            - name: '*'
          score:
            disabled:
            - name: '*'
    """)
WEIGHTS = config("""
    profiles:
      - plugins:
          score:
            disabled:
            - name: ImageLocality
            enabled:
            - name: NodeAffinity
              weight: 2
            - name: NodeResourcesFit
              weight: 5
    """)
KUBEADM = config("""
    clientConnection:
      kubeconfig: /etc/kubernetes/scheduler.conf
      qps: 0
    leaderElection:
      leaderElect: true
      leaseDuration: 0s
      resourceName: ""
    """)
SPREAD = config("""
    profiles:
      - schedulerName: default-scheduler
        pluginConfig:
          - name: GangScheduling
            args: {defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}
          - name: NodeResourcesFit
            args:
              apiVersion: kubescheduler.config.k8s.io/v1
              kind: NodeResourcesFitArgs
              scoringStrategy:
                type: RequestedToCapacityRatio
                requestedToCapacityRatio:
                  shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]
                resources: [{name: example.com/foo, weight: 3}]
    """)
EVERYTHING = profile("""
    plugins:
      multiPoint: {enabled: [{name: Gang}, {name: "tests.unit.config.plugins:Picky", weight: 4}]}
      queueSort: {enabled: [{name: QoSSort}], disabled: [{name: "*"}]}
    pluginConfig:
    - {name: Picky, args: {label: a, colour: blue, patience: 1m30s}}
    - name: NodeAffinity
      args: {addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 2, preference: {}}]}}
    """)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_client_qps_of_shipped_files_does_not_limit_bindings(path: Path) -> None:
    """kube-scheduler's defaults (qps 50, burst 100) would limit bindings to 50 pods per second."""
    client = load(path).configuration.client_connection
    assert (client.qps, client.burst) == (5000, 5000)


def test_several_profiles_one_without_scoring() -> None:
    loaded = loads(SEVERAL_PROFILES)
    assert [p.scheduler_name for p in loaded.profiles] == ["default-scheduler", "no-scoring-scheduler"]
    assert loaded.profiles[0] == default().profiles[0]
    assert (names(loaded, "score", 1), names(loaded, "preScore", 1)) == ([], [])
    assert names(loaded, "filter", 1) == names(loaded, "filter", 0)


def test_weights_and_order_of_the_example_in_the_documentation() -> None:
    loaded = loads(WEIGHTS)
    assert names(loaded, "score")[:2] == ["NodeAffinity", "NodeResourcesFit"]
    assert (weights(loaded)["NodeAffinity"], weights(loaded)["NodeResourcesFit"]) == (2, 5)
    assert "ImageLocality" not in names(loaded, "score")


def test_zero_values_give_the_defaults_of_kube_scheduler() -> None:
    loaded = loads(KUBEADM).configuration
    assert loaded.client_connection == ClientConnection(kubeconfig="/etc/kubernetes/scheduler.conf")
    assert loaded.leader_election == LeaderElection()


def test_fields_have_the_defaults_of_kube_scheduler() -> None:
    assert loads(config()).configuration == KubeSchedulerConfiguration()
    shown = yaml.safe_load_all(show(loads(config())))
    kube = next(shown)
    assert kube["leaderElection"] == {
        "leaderElect": True,
        "leaseDuration": "15s",
        "renewDeadline": "10s",
        "retryPeriod": "2s",
        "resourceLock": "leases",
        "resourceName": "kube-scheduler",
        "resourceNamespace": "kube-system",
    }
    scalars = {k: v for k, v in kube.items() if isinstance(v, int)}
    assert scalars == {
        "parallelism": 16,
        "enableProfiling": True,
        "enableContentionProfiling": True,
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 10,
        "delayCacheUntilActive": False,
    }


def test_args_of_unavailable_plugins_are_a_warning() -> None:
    loaded = loads(SPREAD)
    assert any("GangScheduling" in w and "no effect" in w for w in loaded.warnings)
    strategy = loaded.profiles[0].args["NodeResourcesFit"].scoring_strategy
    assert [(p.utilization, p.score) for p in strategy.requested_to_capacity_ratio.shape] == [(0, 0), (100, 10)]


def test_all_fields_of_an_extender_are_read() -> None:
    extender = """
        extenders:
        - {urlPrefix: "https://e/", filterVerb: filter, enableHTTPS: true, httpTimeout: 100ms, nodeCacheCapable: true,
           managedResources: [{name: example.com/foo, ignoredByScheduler: true}], tlsConfig: {insecure: true}}
        """
    (loaded,) = loads(config(extender)).configuration.extenders
    assert (loaded.enable_https, loaded.http_timeout, loaded.managed_resources[0].name) == (
        True,
        0.1,
        "example.com/foo",
    )


@pytest.mark.parametrize("file", FILES, ids=[f.name for f in FILES])
def test_shipped_files_load_without_a_warning(file: Path) -> None:
    loaded = load(file)
    assert loaded.warnings == ()
    assert file.read_text().startswith("# ")


def shipped(name: str) -> LoadedConfig:
    return load(FOLDER / f"{name}.yaml")


def test_shipped_files_have_their_purpose() -> None:
    assert len(FILES) >= 5
    assert shipped("default").profiles == default().profiles
    assert shipped("second-scheduler").profiles[0].points == default().profiles[0].points
    assert {shipped(n).profiles[0].scheduler_name for n in ("second-scheduler", "qos", "gang")} == {"pyscheduler"}
    assert names(shipped("qos"), "queueSort") == ["QoSSort"]
    assert names(shipped("gang"), "permit") == ["Gang"]
    packing = shipped("bin-packing").profiles[0]
    assert packing.args["NodeResourcesFit"].scoring_strategy.type == "MostAllocated"
    assert "NodeResourcesBalancedAllocation" not in packing.plugins


@pytest.mark.parametrize("text", [SEVERAL_PROFILES, WEIGHTS, KUBEADM, SPREAD, EVERYTHING, config("", "seed: 3")])
def test_shown_configuration_loads_to_the_same_profiles(text: str) -> None:
    loaded = loads(text)
    again = loads(show(loaded))
    assert again.profiles == loaded.profiles
    assert again.python.seed == loaded.python.seed
    assert again.configuration.leader_election == loaded.configuration.leader_election
    assert show(again) == show(loaded)


JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["*", "5s", "Gang"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "enabled", "x"]), inner),
    max_leaves=5,
)


@given(st.data())
def test_random_values_are_loaded_or_rejected_with_config_error(data: st.DataObject) -> None:
    document: Any = next(iter(yaml.safe_load_all(EVERYTHING)))
    place = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if isinstance(place[key], dict | list) and place[key] and data.draw(st.integers(0, 3)):
            place = place[key]
            continue
        place[key] = data.draw(JUNK)
        break
    with suppress(ConfigError):
        show(from_value(document))


@given(st.text(alphabet=":-[]{}&*!<>?|'\"#%@,\n\t abc1\x00", max_size=40))
def test_random_text_is_rejected_with_config_error(text: str) -> None:
    with pytest.raises(ConfigError):
        loads(text)
