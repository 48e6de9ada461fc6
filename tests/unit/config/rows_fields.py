"""Fields of the configuration but for plugins and their args: defaults, ranges, durations, profiles, extenders."""

from __future__ import annotations

from tests.unit.config.files import HEAD, config
from tests.unit.config.row import DECODING, Row

NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName', or 'my.name', or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
KEY_RULE = f"a valid label key {NAME_RULE.removeprefix('name part ')} with an optional DNS subdomain prefix and '/' (e.g. "
PREFIX_RULE = (
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LONG = "a" * 60
_LONG_DOMAIN = f"{_LONG}.{_LONG}.{_LONG}.{_LONG}.b"
_NULL_DURATION = "null is left out here, and a text that is no duration in Go"

DEFAULTS = Row(
    "nothing said",
    config(),
    gives={
        "parallelism": 16,
        "leaderElection": {
            "leaderElect": True,
            "leaseDuration": "15s",
            "renewDeadline": "10s",
            "retryPeriod": "2s",
            "resourceLock": "leases",
            "resourceName": "kube-scheduler",
            "resourceNamespace": "kube-system",
        },
        "clientConnection": {
            "kubeconfig": "",
            "acceptContentTypes": "",
            "contentType": "application/vnd.kubernetes.protobuf",
            "qps": 50.0,
            "burst": 100,
        },
        "enableProfiling": True,
        "enableContentionProfiling": True,
        "percentageOfNodesToScore": None,
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 10,
        "extenders": [],
        "delayCacheUntilActive": False,
        "profiles[0].schedulerName": "default-scheduler",
        "profiles[0].percentageOfNodesToScore": None,
        "profiles[1]": None,
    },
)

FIELDS = (
    DEFAULTS,
    Row("parallelism", config("parallelism: 4"), gives={"parallelism": 4}),
    Row("a whole number with a point", config("parallelism: 8.0"), gives={"parallelism": 8}),
    Row("null is left out", config("parallelism: null\nprofiles: null"), gives={"parallelism": 16}),
    Row(
        "parallelism 0",
        config("parallelism: 0"),
        ("parallelism: Invalid value: 0: should be an integer value greater than zero",),
    ),
    Row(
        "parallelism negative",
        config("parallelism: -1"),
        ("parallelism: Invalid value: -1: should be an integer value greater than zero",),
    ),
    Row(
        "more than 32 bits",
        config("parallelism: 2147483648"),
        ("parallelism: must be a whole number from -2147483648 to 2147483647, not 2147483648",),
        words=DECODING,
    ),
    Row(
        "more than 64 bits",
        config("podMaxBackoffSeconds: 9223372036854775808"),
        (
            "podMaxBackoffSeconds: must be a whole number from -9223372036854775808 to 9223372036854775807,"
            " not 9223372036854775808",
        ),
        words=DECODING,
    ),
    Row(
        "a fraction",
        config("parallelism: 1.5"),
        ("parallelism: must be a whole number, not 1.5",),
        words=DECODING,
    ),
    Row("profiling off", config("enableProfiling: false"), gives={"enableContentionProfiling": False}),
    Row(
        "contention profiling only",
        config("enableProfiling: false\nenableContentionProfiling: true"),
        gives={"enableProfiling": False, "enableContentionProfiling": True},
    ),
    Row("percentage 0", config("percentageOfNodesToScore: 0"), gives={"profiles[0].percentageOfNodesToScore": 0}),
    Row("percentage 100", config("percentageOfNodesToScore: 100"), gives={"percentageOfNodesToScore": 100}),
    Row(
        "percentage too high",
        config("percentageOfNodesToScore: 101"),
        ("percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",),
    ),
    Row(
        "percentage too low",
        config("percentageOfNodesToScore: -1"),
        ("percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]",),
    ),
    Row(
        "backoffs",
        config("podInitialBackoffSeconds: 7\npodMaxBackoffSeconds: 7"),
        gives={"podInitialBackoffSeconds": 7, "podMaxBackoffSeconds": 7},
    ),
    Row(
        "initial backoff 0",
        config("podInitialBackoffSeconds: 0"),
        ("podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",),
    ),
    Row(
        "initial backoff above the most",
        config("podInitialBackoffSeconds: 11"),
        ("podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds",),
    ),
    Row("cache later", config("delayCacheUntilActive: true"), gives={"delayCacheUntilActive": True}),
    Row(
        "several at once",
        config("parallelism: 0\npodInitialBackoffSeconds: -1\npercentageOfNodesToScore: 500"),
        (
            "parallelism: Invalid value: 0: should be an integer value greater than zero",
            "podInitialBackoffSeconds: Invalid value: -1: must be greater than 0",
            "percentageOfNodesToScore: Invalid value: 500: not in valid range [0-100]",
        ),
    ),
)

CLIENT = (
    Row(
        "client connection whole",
        config(
            "clientConnection: {kubeconfig: KUBECONFIG, acceptContentTypes: application/json, "
            "contentType: application/json, qps: 0.5, burst: 7}"
        ),
        gives={"clientConnection.qps": 0.5, "clientConnection.burst": 7, "clientConnection.acceptContentTypes": "application/json"},
    ),
    Row(
        "client connection zeros",
        config("clientConnection: {contentType: '', qps: 0, burst: 0}"),
        gives={"clientConnection": DEFAULTS.gives["clientConnection"]},
    ),
    Row("qps without limit", config("clientConnection: {qps: -1}"), gives={"clientConnection.qps": -1.0}),
    Row(
        "burst negative",
        config("clientConnection: {burst: -1}"),
        ("clientConnection.burst: Invalid value: -1: must be non-negative",),
    ),
)

ELECTION = (
    Row(
        "leader election whole",
        config(
            "leaderElection: {leaderElect: true, leaseDuration: 1m30s, renewDeadline: 1m0.5s, retryPeriod: 500ms, "
            "resourceLock: leases, resourceName: mine, resourceNamespace: here}"
        ),
        gives={
            "leaderElection.leaseDuration": "1m30s",
            "leaderElection.renewDeadline": "1m0.5s",
            "leaderElection.retryPeriod": "500ms",
            "leaderElection.resourceName": "mine",
            "leaderElection.resourceNamespace": "here",
        },
    ),
    Row(
        "leader election zeros",
        config(
            "leaderElection: {leaseDuration: 0s, renewDeadline: '0', retryPeriod: 0m0s, resourceLock: '', "
            "resourceName: '', resourceNamespace: ''}"
        ),
        gives={"leaderElection": DEFAULTS.gives["leaderElection"]},
    ),
    Row(
        "no leader election, nothing checked",
        config("leaderElection: {leaderElect: false, leaseDuration: -1s, resourceLock: endpoints}"),
        gives={"leaderElection.leaderElect": False},
    ),
    *(
        Row(f"duration {text}", config(f"leaderElection: {{leaseDuration: {text}}}"), gives={"leaderElection.leaseDuration": shown})
        for text, shown in {"1h": "1h0m0s", "1.5m": "1m30s", ".5h": "30m0s", "+20s": "20s", "20000ms": "20s"}.items()
    ),
    *(
        Row(
            f"{key} negative",
            config(f"leaderElection: {{{key}: -1s}}"),
            (f'leaderElection.{key}: Invalid value: "-1s": must be greater than zero',),
        )
        for key in ("renewDeadline", "retryPeriod")
    ),
    Row(
        "leaseDuration negative",
        config("leaderElection: {leaseDuration: -1s}"),
        (
            'leaderElection.leaseDuration: Invalid value: "-1s": must be greater than zero',
            'leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`',
        ),
    ),
    Row(
        "lease no longer than the deadline",
        config("leaderElection: {leaseDuration: 10s}"),
        ('leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`',),
    ),
    Row(
        "deadline too short for retries",
        config("leaderElection: {retryPeriod: 9s}"),
        ('leaderElection.renewDeadline: Invalid value: "10s": must be greater than retryPeriod * 1.2',),
        verdict="kube-scheduler ends with it when the election begins",
    ),
    Row(
        "another lock",
        config("leaderElection: {resourceLock: endpointsleases}"),
        ('leaderElection.resourceLock: Invalid value: "endpointsleases": resourceLock value must be "leases"',),
    ),
    Row(
        "a duration without unit",
        config("leaderElection: {retryPeriod: 2}"),
        ('leaderElection.retryPeriod: must be a duration; write "2s" for 2 seconds',),
        words=DECODING,
    ),
    Row(
        "an empty duration",
        config("leaderElection: {retryPeriod: ''}"),
        ('leaderElection.retryPeriod: "" is not a duration such as 15s, 1m30s or 500ms',),
        words=DECODING,
    ),
    Row(
        "a duration of days",
        config("leaderElection: {leaseDuration: 1d}"),
        ('leaderElection.leaseDuration: "1d" is not a duration such as 15s, 1m30s or 500ms',),
        words=DECODING,
    ),
    Row(
        "a duration of centuries",
        config("leaderElection: {leaseDuration: 2562048h}"),
        ('leaderElection.leaseDuration: "2562048h" is longer than a duration can be',),
        words=DECODING,
    ),
    Row("a duration of null", config("leaderElection: {retryPeriod: null}"), verdict=_NULL_DURATION),
)

PROFILES = (
    Row("no profiles", config("profiles: []"), gives={"profiles[0].schedulerName": "default-scheduler"}),
    Row("an empty profile", config("profiles: [null]"), gives={"profiles[0].schedulerName": "default-scheduler"}),
    Row(
        "several profiles",
        config("profiles: [{schedulerName: a}, {schedulerName: b, percentageOfNodesToScore: 40}]"),
        gives={"profiles[0].schedulerName": "a", "profiles[1].percentageOfNodesToScore": 40},
    ),
    Row(
        "an empty name",
        config("profiles: [{schedulerName: ''}]"),
        ("profiles[0].schedulerName: Required value: each of several profiles needs a name of its own",),
        words="a hint more",
    ),
    Row(
        "several profiles, one without a name",
        config("profiles: [{schedulerName: a}, {}]"),
        ("profiles[1].schedulerName: Required value: each of several profiles needs a name of its own",),
        words="a hint more",
    ),
    Row(
        "a name twice",
        config("profiles: [{schedulerName: a}, {schedulerName: a}]"),
        ('profiles[1].schedulerName: Duplicate value: "a": profiles[0] has it already',),
        words="kube-scheduler means to show the first place, and shows {}",
    ),
    Row(
        "a profile's percentage",
        config("profiles: [{percentageOfNodesToScore: -1}]"),
        ("profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]",),
    ),
)

EXTENDERS = (
    Row(
        "an extender whole",
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
        gives={
            "extenders[0].weight": 5,
            "extenders[0].httpTimeout": "100ms",
            "extenders[0].managedResources[1]": {"name": "example.com/bar", "ignoredByScheduler": False},
            "extenders[0].tlsConfig.serverName": "extender",
            "profiles[0].args.NodeResourcesFit.ignoredResources": ["example.com/foo"],
        },
    ),
    Row(
        "an extender's defaults",
        config("extenders: [{urlPrefix: http://e, filterVerb: f, httpTimeout: 0s}]"),
        gives={"extenders[0].httpTimeout": "5s", "extenders[0].weight": 0, "extenders[0].ignorable": False},
    ),
    Row(
        "resources of extenders instead of ignored ones",
        config("""
            profiles:
            - schedulerName: a
              pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [example.com/own]}}]
            - schedulerName: b
            extenders:
            - {urlPrefix: http://e, filterVerb: f, managedResources: [{name: a.io/x, ignoredByScheduler: true}]}
            - {urlPrefix: http://g, filterVerb: f, managedResources: [{name: a.io/y, ignoredByScheduler: true}]}
            """),
        gives={
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
        gives={"profiles[0].args.NodeResourcesFit": None},
        verdict="kube-scheduler needs the plugin's args to write the resources into; without it nothing filters by them",
    ),
    Row(
        "a weight that does not count",
        config("extenders: [{urlPrefix: http://e, prioritizeVerb: p}]"),
        ("extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",),
    ),
    Row(
        "a negative weight",
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
            "a/b/c": (f"{KEY_RULE}'example.com/MyName')",),
            f"a.io/{_LONG}aaaa": ("name part must be no more than 63 bytes",),
            "cpu": ("is an invalid extended resource name",),
            "kubernetes.io/gpu": ("is an invalid extended resource name",),
            "requests.example.com/a": ("is an invalid extended resource name",),
            f"{_LONG_DOMAIN}/a": ("is an invalid extended resource name",),
        }.items()
    ),
    Row(
        "a resource managed twice",
        config(
            "extenders: [{urlPrefix: http://e, managedResources: [{name: a.io/b}]}, "
            "{urlPrefix: http://f, managedResources: [{name: a.io/b}]}]"
        ),
        (
            'extenders[1].managedResources[0].name: Invalid value: "a.io/b": '
            "duplicate extender managed resource name",
        ),
    ),
    Row(
        "a certificate that is no base64",
        config("extenders: [{urlPrefix: http://e, tlsConfig: {caData: 'no!'}}]"),
        ("extenders[0].tlsConfig.caData: must be base64 text",),
        words=DECODING,
    ),
)

DECODED = tuple(
    Row(name, text, says, words=DECODING)
    for name, text, says in (
        (
            "an unknown field",
            config("parallelsm: 4"),
            ('parallelsm: unknown field "parallelsm"; did you mean "parallelism"?',),
        ),
        (
            "a field in other letters",
            config("Parallelism: 4"),
            ('Parallelism: unknown field "Parallelism"; did you mean "parallelism"?',),
        ),
        (
            "an unknown field deep down",
            config("profiles: [{plugins: {filter: {enable: []}}}]"),
            ('profiles[0].plugins.filter.enable: unknown field "enable"; did you mean "enabled"?',),
        ),
        ("a field twice", config("parallelism: 4\nparallelism: 4"), ("parallelism: is given twice (first on line 3)",)),
        ("text for a number", config("parallelism: '4'"), ('parallelism: must be a whole number, not "4"',)),
        ("a number for text", config("profiles: [{schedulerName: 5}]"), (
            'profiles[0].schedulerName: must be text, not 5; write it in quotes: "5"',
        )),
        ("a truth for a number", config("parallelism: true"), ("parallelism: must be a whole number, not true",)),
        ("text for a truth", config("enableProfiling: 'yes'"), ('enableProfiling: must be true or false, not "yes"',)),
        ("a list for a mapping", config("leaderElection: []"), ("leaderElection: must be a mapping, not a list",)),
        ("a mapping for a list", config("profiles: {}"), ("profiles: must be a list, not a mapping",)),
        (
            "no kind",
            "apiVersion: kubescheduler.config.k8s.io/v1\n",
            ("kind: is required; write KubeSchedulerConfiguration (or PySchedulerConfiguration in a document of its own)",),
        ),
        (
            "no version",
            "kind: KubeSchedulerConfiguration\n",
            ("apiVersion: is required; write kubescheduler.config.k8s.io/v1",),
        ),
        (
            "an old version",
            HEAD.replace("/v1", "/v1beta3"),
            ('apiVersion: "kubescheduler.config.k8s.io/v1beta3" is not served; write kubescheduler.config.k8s.io/v1',),
        ),
        (
            "another kind",
            "apiVersion: v1\nkind: Pod\n",
            (
                'kind: "Pod" is not served; write KubeSchedulerConfiguration (or PySchedulerConfiguration in a document '
                "of its own)",
            ),
        ),
        ("no YAML", config("profiles: [1"), (
            "not valid YAML: expected ',' or ']', but got '<stream end>' (line 3, column 13)",
        )),
    )
)
