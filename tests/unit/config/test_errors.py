"""Files with errors: each error is one line with its YAML path, and all are reported at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyscheduler.config.load import ConfigError, load, loads
from tests.unit.config.files import config, only_problem, problems, profile

FIELDS = [
    ("parallelism: 0", "parallelism: Invalid value: 0: should be an integer value greater than zero"),
    ("parallelism: many", 'parallelism: must be a whole number, not "many"'),
    ("parallelism: true", "parallelism: must be a whole number, not true"),
    ("paralelism: 4", 'paralelism: unknown field "paralelism"; did you mean "parallelism"?'),
    ("clientConnection: 5", "clientConnection: must be a mapping, not 5"),
    ("leaderElection: {leaseDuration: soon}", 'leaderElection.leaseDuration: "soon" is not a duration such as 15s'),
    ("leaderElection: {retryPeriod: 2}", 'leaderElection.retryPeriod: must be a duration; write "2s" for 2 seconds'),
    (
        "leaderElection: {retryPeriod: 9s}",
        'leaderElection.renewDeadline: Invalid value: "10s": must be greater than retryPeriod * 1.2',
    ),
    ("profiles: [{schedulerName: 5}]", 'profiles[0].schedulerName: must be text, not 5; write it in quotes: "5"'),
    ("extenders: [{tlsConfig: {caData: 'no!'}}]", "extenders[0].tlsConfig.caData: must be base64 text"),
]


@pytest.mark.parametrize(("body", "expected"), FIELDS, ids=[body for body, _ in FIELDS])
def test_invalid_field_is_reported_in_one_line_with_its_path(body: str, expected: str) -> None:
    assert only_problem(config(body)).startswith(expected)


PLUGINS = [
    ("score: {enabled: [{name: NodeAfinity}]}", 'score.enabled[0].name: ScorePlugin "NodeAfinity" does not exist; did'),
    ("score: {enabled: [{name: NodeName}]}", 'score.enabled[0].name: plugin "NodeName" does not extend ScorePlugin'),
    ("multiPoint: {enabled: [{name: Nowhere}]}", 'multiPoint.enabled[0].name: plugin "Nowhere" does not exist'),
    ("filter: {enabled: [NodeName]}", 'filter.enabled[0]: must be a mapping, not "NodeName"'),
    ("filter: {enabled: [{weight: 1}]}", "filter.enabled[0].name: Required value: name a plugin"),
    ("filter: {enabled: [{name: '*'}]}", 'filter.enabled[0].name: "*" can be disabled, not enabled'),
    ("filter: {disabled: [{}]}", "filter.disabled[0].name: Required value: name a plugin, or all of them by *"),
    ("fitler: {}", 'fitler: unknown field "fitler"; did you mean "filter"?'),
    (
        "filter: {enabled: [{name: NodeName}, {name: NodeName}]}",
        'filter.enabled[1].name: plugin "NodeName" already registered as "FilterPlugin"',
    ),
    (
        "queueSort: {disabled: [{name: '*'}]}",
        'queueSort: only one queue sort plugin required for profile with scheduler name "mine", but got 0',
    ),
    (
        "queueSort: {enabled: [{name: QoSSort}]}",
        'queueSort: only one queue sort plugin required for profile with scheduler name "mine", but got 2; disable all '
        "but one of PrioritySort, QoSSort",
    ),
    (
        "bind: {disabled: [{name: DefaultBinder}]}",
        'bind: at least one bind plugin is needed for profile with scheduler name "mine"',
    ),
    ("placementScore: {enabled: [{name: Any}]}", 'placementScore.enabled[0].name: PlacementScorePlugin "Any" does not'),
]


@pytest.mark.parametrize(("plugins", "expected"), PLUGINS, ids=[plugins for plugins, _ in PLUGINS])
def test_invalid_plugin_set_is_reported_in_one_line_with_its_path(plugins: str, expected: str) -> None:
    found = problems(profile(f"plugins:\n  {plugins}"))
    assert len(found) == 1
    assert found[0].startswith(f"profiles[0].plugins.{expected}"), found


ARGS = [
    (
        "- {name: NodeResourceFit}",
        '[0].name: plugin "NodeResourceFit" does not exist; did you mean "NodeResourcesFit"?',
    ),
    ("- {args: {}}", "[0].name: Required value: name a plugin"),
    ("- {name: Gang}\n- {name: Gang}", '[1]: Duplicate value: "Gang"'),
    ("- {name: NodeName, args: {a: 1}}", '[0].args.a: unknown field "a"'),
    (
        "- {name: NodeResourcesFit, args: {kind: PodArgs}}",
        "[0].args.kind: args for plugin NodeResourcesFit were not of",
    ),
    (
        "- {name: NodeResourcesFit, args: {apiVersion: kubescheduler.config.k8s.io/v1beta2}}",
        '[0].args.apiVersion: "kubescheduler.config.k8s.io/v1beta2" is not served',
    ),
    (
        "- {name: NodeAffinity, args: {addedAffinity: {requiredDuringScheduling: {}}}}",
        '[0].args.addedAffinity.requiredDuringScheduling: unknown field "requiredDuringScheduling"',
    ),
    (
        "- {name: Gang, args: {permitWaitingTimeSeconds: 0}}",
        "[0].args.permitWaitingTimeSeconds: Invalid value: 0: must be greater than 0",
    ),
]


@pytest.mark.parametrize(("body", "expected"), ARGS, ids=[body for body, _ in ARGS])
def test_invalid_args_are_reported_in_one_line_with_their_path(body: str, expected: str) -> None:
    assert only_problem(profile(f"pluginConfig:\n{body}")).startswith(f"profiles[0].pluginConfig{expected}")


WHOLE = [
    ("", "is empty; start it with"),
    ("---\n---\n# nothing\n", "is empty; start it with"),
    ("just text", 'must be a KubeSchedulerConfiguration, not "just text"'),
    ("[]", "must be a KubeSchedulerConfiguration, not a list"),
    ("profiles: []", "kind: is required; write KubeSchedulerConfiguration"),
    ("kind: Pod\napiVersion: v1", 'kind: "Pod" is not served; write KubeSchedulerConfiguration'),
    ("kind: KubeSchedulerConfiguration", "apiVersion: is required; write kubescheduler.config.k8s.io/v1"),
    (
        "kind: KubeSchedulerConfiguration\napiVersion: kubescheduler.config.k8s.io/v1beta3",
        'apiVersion: "kubescheduler.config.k8s.io/v1beta3" is not served; write kubescheduler.config.k8s.io/v1',
    ),
    ("kind: PySchedulerConfiguration\napiVersion: pyscheduler.io/v1", "holds no KubeSchedulerConfiguration"),
    (config() + "---\n" + config(), "kind: there are two documents of kind KubeSchedulerConfiguration; keep one"),
    ("a: [1", "not valid YAML: expected ',' or ']', but got '<stream end>' (line 1, column 6)"),
    ("a:\n\t- b", "not valid YAML: found character '\\t' that cannot start any token (YAML is indented with spaces"),
    ("a: \x00", "not valid YAML: unacceptable character"),
    ("[" * 1000, "not readable: nested too deeply"),
]


@pytest.mark.parametrize(("text", "expected"), WHOLE, ids=[text[:30] for text, _ in WHOLE])
def test_file_that_is_no_configuration_is_reported_in_one_line(text: str, expected: str) -> None:
    assert only_problem(text).startswith(expected)


def test_all_errors_of_a_file_are_reported_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(
        config("""
            parallelism: 0
            profiles:
            - schedulerName: a
              plugins:
                score:
                  enabled:
                  - name: NodeName
              pluginConfig:
              - name: NodeResourcesFit
                args:
                  scoringStrategy:
                    type: Foo
                    resources:
                    - name: 5
            - schedulerName: a
            """)
    )
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert [(p.line, p.path) for p in caught.value.problems] == [
        (3, "parallelism"),
        (9, "profiles[0].plugins.score.enabled[0].name"),
        (14, "profiles[0].pluginConfig[0].args.scoringStrategy.type"),
        (16, "profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].name"),
        (17, "profiles[1].schedulerName"),
    ]
    first = f"{file}:3: parallelism: Invalid value: 0: should be an integer value greater than zero"
    assert str(caught.value).splitlines()[0] == first


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("missing.yaml", None, "cannot be read: No such file or directory"),
        ("binary.yaml", b"\xff\xfe\x00a", "is not a text file in UTF-8"),
        (".", None, "cannot be read: Is a directory"),
    ],
)
def test_unreadable_file_is_reported_in_one_line(
    tmp_path: Path, name: str, content: bytes | None, expected: str
) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert str(caught.value).startswith(f"{file}: {expected}")
    assert "\n" not in str(caught.value)


def test_queue_sort_plugin_must_be_the_same_in_all_profiles() -> None:
    text = config("""
        profiles:
        - schedulerName: a
        - schedulerName: b
          plugins:
            multiPoint: {enabled: [{name: QoSSort}], disabled: [{name: PrioritySort}]}
        """)
    expected = (
        'profiles[1].plugins.queueSort: must be the same for all profiles: it is "QoSSort" here and "PrioritySort"'
    )
    assert only_problem(text).startswith(expected)


def test_queue_sort_args_must_be_the_same_in_all_profiles() -> None:
    sort = 'plugins: {queueSort: {enabled: [{name: "tests.unit.config.plugins:ByName"}], disabled: [{name: "*"}]}}'
    text = config(f"""
        profiles:
        - schedulerName: a
          {sort}
        - schedulerName: b
          {sort}
          pluginConfig: [{{name: ByName, args: {{reverse: true}}}}]
        """)
    expected = 'profiles[1].pluginConfig: queueSort must be the same for all profiles: "ByName" has different args here'
    assert only_problem(text) == expected


def test_missing_field_has_the_line_of_its_parent() -> None:
    with pytest.raises(ConfigError) as caught:
        loads(config("profiles:\n- schedulerName: a\n- plugins:\n    bind: {}\n  pluginConfig: [{}]"))
    found = [(p.line, p.path) for p in caught.value.problems]
    assert found == [(5, "profiles[1].schedulerName"), (7, "profiles[1].pluginConfig[0].name")]


def test_enabled_plugin_behind_a_disabled_gate_is_a_warning() -> None:
    loaded = loads(profile("plugins: {multiPoint: {enabled: [{name: GangScheduling}]}}"))
    (warning,) = (w for w in loaded.warnings if "GangScheduling" in w)
    assert warning.endswith('[0].name: plugin "GangScheduling" does nothing: the feature gates that it needs are off')
    assert "GangScheduling" not in loaded.profiles[0].plugins
    disabled = loads(profile("plugins: {multiPoint: {disabled: [{name: GangScheduling}]}}"))
    assert not any("GangScheduling" in w for w in disabled.warnings)


def test_settings_without_effect_are_warned_about_once() -> None:
    body = """
        leaderElection: {leaderElect: false}
        parallelism: 8
        profiles:
        - pluginConfig: [{name: GangScheduling, args: {any: thing}}]
        """
    loaded = loads(config(body))
    assert [w.split(":")[0] for w in loaded.warnings] == [
        "profiles[0].pluginConfig[0]",
        "parallelism",
    ]
