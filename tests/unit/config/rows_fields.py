"""Fields of the configuration without plugins, args and extenders: defaults, ranges, durations, profiles."""

from __future__ import annotations

from tests.unit.config.files import config
from tests.unit.config.row import DECODING, Row

_NULL_DURATION = "null is unset here, but not a duration in Go"

DEFAULTS = Row(
    "defaults",
    config(),
    values={
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
    Row("parallelism", config("parallelism: 4"), values={"parallelism": 4}),
    Row("integer with a decimal point", config("parallelism: 8.0"), values={"parallelism": 8}),
    Row("null is unset", config("parallelism: null\nprofiles: null"), values={"parallelism": 16}),
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
        wording=DECODING,
    ),
    Row(
        "more than 64 bits",
        config("podMaxBackoffSeconds: 9223372036854775808"),
        (
            "podMaxBackoffSeconds: must be a whole number from -9223372036854775808 to 9223372036854775807,"
            " not 9223372036854775808",
        ),
        wording=DECODING,
    ),
    Row(
        "fraction",
        config("parallelism: 1.5"),
        ("parallelism: must be a whole number, not 1.5",),
        wording=DECODING,
    ),
    Row("profiling off", config("enableProfiling: false"), values={"enableContentionProfiling": False}),
    Row(
        "contention profiling only",
        config("enableProfiling: false\nenableContentionProfiling: true"),
        values={"enableProfiling": False, "enableContentionProfiling": True},
    ),
    Row("percentage 0", config("percentageOfNodesToScore: 0"), values={"profiles[0].percentageOfNodesToScore": 0}),
    Row("percentage 100", config("percentageOfNodesToScore: 100"), values={"percentageOfNodesToScore": 100}),
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
        values={"podInitialBackoffSeconds": 7, "podMaxBackoffSeconds": 7},
    ),
    Row(
        "initial backoff 0",
        config("podInitialBackoffSeconds: 0"),
        ("podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",),
    ),
    Row(
        "initial backoff above the maximum",
        config("podInitialBackoffSeconds: 11"),
        ("podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds",),
    ),
    Row("delayCacheUntilActive", config("delayCacheUntilActive: true"), values={"delayCacheUntilActive": True}),
    Row(
        "several errors",
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
        "all fields of the client connection",
        config(
            "clientConnection: {kubeconfig: KUBECONFIG, acceptContentTypes: application/json, "
            "contentType: application/json, qps: 0.5, burst: 7}"
        ),
        values={
            "clientConnection.qps": 0.5,
            "clientConnection.burst": 7,
            "clientConnection.acceptContentTypes": "application/json",
        },
    ),
    Row(
        "client connection zeros",
        config("clientConnection: {contentType: '', qps: 0, burst: 0}"),
        values={"clientConnection": DEFAULTS.values["clientConnection"]},
    ),
    Row("qps without limit", config("clientConnection: {qps: -1}"), values={"clientConnection.qps": -1.0}),
    Row(
        "burst negative",
        config("clientConnection: {burst: -1}"),
        ("clientConnection.burst: Invalid value: -1: must be non-negative",),
    ),
)

ELECTION = (
    Row(
        "all fields of leader election",
        config(
            "leaderElection: {leaderElect: true, leaseDuration: 1m30s, renewDeadline: 1m0.5s, retryPeriod: 500ms, "
            "resourceLock: leases, resourceName: mine, resourceNamespace: here}"
        ),
        values={
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
        values={"leaderElection": DEFAULTS.values["leaderElection"]},
    ),
    Row(
        "disabled leader election is not validated",
        config("leaderElection: {leaderElect: false, leaseDuration: -1s, resourceLock: endpoints}"),
        values={"leaderElection.leaderElect": False},
    ),
    *(
        Row(
            f"duration {text}",
            config(f"leaderElection: {{leaseDuration: {text}}}"),
            values={"leaderElection.leaseDuration": shown},
        )
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
        "leaseDuration equals renewDeadline",
        config("leaderElection: {leaseDuration: 10s}"),
        ('leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`',),
    ),
    Row(
        "renewDeadline too short for retryPeriod",
        config("leaderElection: {retryPeriod: 9s}"),
        ('leaderElection.renewDeadline: Invalid value: "10s": must be greater than retryPeriod * 1.2',),
        difference="kube-scheduler fails only when the election starts",
    ),
    Row(
        "unknown resource lock",
        config("leaderElection: {resourceLock: endpointsleases}"),
        ('leaderElection.resourceLock: Invalid value: "endpointsleases": resourceLock value must be "leases"',),
    ),
    Row(
        "duration without unit",
        config("leaderElection: {retryPeriod: 2}"),
        ('leaderElection.retryPeriod: must be a duration; write "2s" for 2 seconds',),
        wording=DECODING,
    ),
    Row(
        "empty duration",
        config("leaderElection: {retryPeriod: ''}"),
        ('leaderElection.retryPeriod: "" is not a duration such as 15s, 1m30s or 500ms',),
        wording=DECODING,
    ),
    Row(
        "duration in days",
        config("leaderElection: {leaseDuration: 1d}"),
        ('leaderElection.leaseDuration: "1d" is not a duration such as 15s, 1m30s or 500ms',),
        wording=DECODING,
    ),
    Row(
        "duration out of range",
        config("leaderElection: {leaseDuration: 2562048h}"),
        ('leaderElection.leaseDuration: "2562048h" exceeds the longest duration, 292 years',),
        wording=DECODING,
    ),
    Row("duration null", config("leaderElection: {retryPeriod: null}"), difference=_NULL_DURATION),
)

PROFILES = (
    Row("no profiles", config("profiles: []"), values={"profiles[0].schedulerName": "default-scheduler"}),
    Row("empty profile", config("profiles: [null]"), values={"profiles[0].schedulerName": "default-scheduler"}),
    Row(
        "several profiles",
        config("profiles: [{schedulerName: a}, {schedulerName: b, percentageOfNodesToScore: 40}]"),
        values={"profiles[0].schedulerName": "a", "profiles[1].percentageOfNodesToScore": 40},
    ),
    Row(
        "empty scheduler name",
        config("profiles: [{schedulerName: ''}]"),
        ("profiles[0].schedulerName: Required value: each of several profiles needs a name of its own",),
        wording="with an additional hint",
    ),
    Row(
        "several profiles, one without a name",
        config("profiles: [{schedulerName: a}, {}]"),
        ("profiles[1].schedulerName: Required value: each of several profiles needs a name of its own",),
        wording="with an additional hint",
    ),
    Row(
        "duplicate scheduler name",
        config("profiles: [{schedulerName: a}, {schedulerName: a}]"),
        ('profiles[1].schedulerName: Duplicate value: "a": profiles[0] has it already',),
        wording="kube-scheduler should show the first index but shows {}",
    ),
    Row(
        "percentage of a profile",
        config("profiles: [{percentageOfNodesToScore: -1}]"),
        ("profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]",),
    ),
)
