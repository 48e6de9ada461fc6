"""Extenders, and files that Go's decoder rejects: unknown fields, wrong types, other kinds."""

from __future__ import annotations

from tests.unit.config.files import HEAD, config
from tests.unit.config.row import DECODING, NAME_RULE, Row

KEY_RULE = (
    f"a valid label key {NAME_RULE.removeprefix('name part ')} with an optional DNS subdomain prefix and '/' "
    "(e.g. 'example.com/MyName')"
)
PREFIX_RULE = (
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LONG = "a" * 60
_LONG_DOMAIN = f"{_LONG}.{_LONG}.{_LONG}.{_LONG}.b"

EXTENDERS = (
    Row(
        "all fields of an extender",
        config("""
            extenders:
            - urlPrefix: https://extender.example.com/scheduler/
              filterVerb: filter
              preemptVerb: preempt
              prioritizeVerb: prioritize
              weight: 5
              bindVerb: bind
              enableHTTPS: true
              httpTimeout: 100ms
              nodeCacheCapable: true
              ignorable: true
              managedResources: [{name: example.com/foo, ignoredByScheduler: true}, {name: example.com/bar}]
              tlsConfig: {insecure: true, serverName: extender}
            """),
        values={
            "extenders[0].weight": 5,
            "extenders[0].httpTimeout": "100ms",
            "extenders[0].managedResources[1]": {"name": "example.com/bar", "ignoredByScheduler": False},
            "extenders[0].tlsConfig.serverName": "extender",
            "profiles[0].args.NodeResourcesFit.ignoredResources": ["example.com/foo"],
        },
    ),
    Row(
        "defaults of an extender",
        config("extenders: [{urlPrefix: http://e, filterVerb: f, httpTimeout: 0s}]"),
        values={"extenders[0].httpTimeout": "5s", "extenders[0].weight": 0, "extenders[0].ignorable": False},
    ),
    Row(
        "managed resources replace ignoredResources",
        config("""
            profiles:
            - schedulerName: a
              pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [example.com/own]}}]
            - schedulerName: b
            extenders:
            - {urlPrefix: http://e, filterVerb: f, managedResources: [{name: a.io/x, ignoredByScheduler: true}]}
            - {urlPrefix: http://g, filterVerb: f, managedResources: [{name: a.io/y, ignoredByScheduler: true}]}
            """),
        values={
            "profiles[0].args.NodeResourcesFit.ignoredResources": ["a.io/x", "a.io/y"],
            "profiles[1].args.NodeResourcesFit.ignoredResources": ["a.io/x", "a.io/y"],
        },
    ),
    Row(
        "resources of extenders without NodeResourcesFit",
        config("""
            profiles:
            - plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}
            extenders:
            - {urlPrefix: http://e, filterVerb: f, managedResources: [{name: a.io/x, ignoredByScheduler: true}]}
            """),
        values={"profiles[0].args.NodeResourcesFit": None},
        difference="kube-scheduler requires the args of NodeResourcesFit although the plugin is disabled",
    ),
    Row(
        "weight without prioritizeVerb",
        config("extenders: [{urlPrefix: http://e, prioritizeVerb: p}]"),
        ("extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",),
    ),
    Row(
        "negative extender weight",
        config("extenders: [{urlPrefix: http://e, prioritizeVerb: p, weight: -2}]"),
        ("extenders[0].weight: Invalid value: -2: must have a positive weight applied to it",),
    ),
    Row(
        "two binders",
        config("extenders: [{urlPrefix: http://e, bindVerb: b}, {urlPrefix: http://f, bindVerb: b}]"),
        ('extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind',),
    ),
    *(
        Row(
            f"managed resource {name[:30]!r}",
            config(f"extenders: [{{urlPrefix: http://e, managedResources: [{{name: '{name}'}}]}}]"),
            tuple(f'extenders[0].managedResources[0].name: Invalid value: "{name}": {rule}' for rule in rules),
        )
        for name, rules in {
            "": ("name part must be non-empty", NAME_RULE),
            "a b": (NAME_RULE,),
            "a/": ("name part must be non-empty", NAME_RULE),
            "/a": ("prefix part must be non-empty",),
            "A.io/a": (PREFIX_RULE,),
            "a/b/c": (KEY_RULE,),
            f"a.io/{_LONG}aaaa": ("name part must be no more than 63 bytes",),
            "cpu": ("is an invalid extended resource name",),
            "kubernetes.io/gpu": ("is an invalid extended resource name",),
            "requests.example.com/a": ("is an invalid extended resource name",),
            f"{_LONG_DOMAIN}/a": ("is an invalid extended resource name",),
        }.items()
    ),
    Row(
        "duplicate managed resource",
        config(
            "extenders: [{urlPrefix: http://e, managedResources: [{name: a.io/b}]}, "
            "{urlPrefix: http://f, managedResources: [{name: a.io/b}]}]"
        ),
        ('extenders[1].managedResources[0].name: Invalid value: "a.io/b": duplicate extender managed resource name',),
    ),
    Row(
        "certificate is not base64",
        config("extenders: [{urlPrefix: http://e, tlsConfig: {caData: 'no!'}}]"),
        ("extenders[0].tlsConfig.caData: must be base64 text",),
        wording=DECODING,
    ),
)

DECODED = tuple(
    Row(name, text, errors, wording=DECODING)
    for name, text, errors in (
        (
            "unknown field",
            config("parallelsm: 4"),
            ('parallelsm: unknown field "parallelsm"; did you mean "parallelism"?',),
        ),
        (
            "field in another case",
            config("Parallelism: 4"),
            ('Parallelism: unknown field "Parallelism"; did you mean "parallelism"?',),
        ),
        (
            "unknown nested field",
            config("profiles: [{plugins: {filter: {enable: []}}}]"),
            ('profiles[0].plugins.filter.enable: unknown field "enable"; did you mean "enabled"?',),
        ),
        (
            "duplicate field",
            config("parallelism: 4\nparallelism: 4"),
            ("parallelism: is given twice (first on line 3)",),
        ),
        ("string for a number", config("parallelism: '4'"), ('parallelism: must be a whole number, not "4"',)),
        (
            "number for a string",
            config("profiles: [{schedulerName: 5}]"),
            ('profiles[0].schedulerName: must be text, not 5; write it in quotes: "5"',),
        ),
        ("boolean for a number", config("parallelism: true"), ("parallelism: must be a whole number, not true",)),
        (
            "string for a boolean",
            config("enableProfiling: 'yes'"),
            ('enableProfiling: must be true or false, not "yes"',),
        ),
        ("list for a mapping", config("leaderElection: []"), ("leaderElection: must be a mapping, not a list",)),
        ("mapping for a list", config("profiles: {}"), ("profiles: must be a list, not a mapping",)),
        (
            "kind missing",
            "apiVersion: kubescheduler.config.k8s.io/v1\n",
            (
                "kind: is required; write KubeSchedulerConfiguration "
                "(or PySchedulerConfiguration in a document of its own)",
            ),
        ),
        (
            "apiVersion missing",
            "kind: KubeSchedulerConfiguration\n",
            ("apiVersion: is required; write kubescheduler.config.k8s.io/v1",),
        ),
        (
            "old apiVersion",
            HEAD.replace("/v1", "/v1beta3"),
            ('apiVersion: "kubescheduler.config.k8s.io/v1beta3" is not served; write kubescheduler.config.k8s.io/v1',),
        ),
        (
            "unknown kind",
            "apiVersion: v1\nkind: Pod\n",
            (
                'kind: "Pod" is not served; write KubeSchedulerConfiguration '
                "(or PySchedulerConfiguration in a document of its own)",
            ),
        ),
        (
            "invalid YAML",
            config("profiles: [1"),
            ("not valid YAML: expected ',' or ']', but got '<stream end>' (line 3, column 13)",),
        ),
    )
)
