{{/* The configuration: that of the values or of the overlay, with the Lease in the namespace of the release. */}}
{{- define "pyscheduler.config" -}}
{{- $config := .Values.config | default (.Files.Get (printf "overlays/%s/config.yaml" .Values.overlay)) -}}
{{- $config | replace "resourceNamespace: kube-system" (printf "resourceNamespace: %s" .Release.Namespace) -}}
{{- end -}}

{{/* Reject a configuration with which no replica, or every one, would schedule. */}}
{{- define "pyscheduler.checkConfig" -}}
{{- $found := false -}}
{{- range $text := regexSplit "(?m)^---" (include "pyscheduler.config" .) -1 -}}
{{- $document := fromYaml $text -}}
{{- with $document.Error }}{{ fail (printf "config: is not a YAML mapping: %s" .) }}{{ end -}}
{{- if eq ($document.kind | default "") "KubeSchedulerConfiguration" -}}
{{- $found = true -}}
{{- $lease := dict "leaderElect" true "resourceName" "kube-scheduler" "resourceNamespace" "kube-system" -}}
{{- $lease = mergeOverwrite $lease ($document.leaderElection | default dict) -}}
{{- if not $lease.leaderElect -}}
{{- if gt (int $.Values.replicas) 1 -}}
{{- fail "config: leaderElection.leaderElect: every replica would schedule: set it to true, or replicas to 1" -}}
{{- end -}}
{{- else if or (ne $lease.resourceName "pyscheduler") (ne $lease.resourceNamespace $.Release.Namespace) -}}
{{- $lines := "set resourceName: pyscheduler and resourceNamespace: kube-system, which becomes that of the release" -}}
{{- fail (printf "config: leaderElection: may only use the Lease %s/pyscheduler: %s" $.Release.Namespace $lines) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not $found }}{{ fail "config: has no document of kind KubeSchedulerConfiguration" }}{{ end -}}
{{- end -}}

{{/* Labels of all objects. */}}
{{- define "pyscheduler.labels" -}}
app.kubernetes.io/name: pyscheduler
app.kubernetes.io/component: scheduler
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{/* Files of the objects: the base and what the overlay adds. */}}
{{- define "pyscheduler.files" -}}
base/service-account.yaml
base/cluster-role.yaml
base/lease-role.yaml
base/podgroup-users.yaml
base/deployment.yaml
base/disruption-budget.yaml
base/service.yaml
{{- if eq .Values.overlay "batch" }}
overlays/batch/volcano-jobs.yaml
overlays/batch/queue-admission.yaml
{{- end -}}
{{- end -}}

{{/* The Deployment of .object with the values of .root. */}}
{{- define "pyscheduler.deployment" -}}
{{- $values := .root.Values -}}
{{- $template := .object.spec.template -}}
{{- $container := first $template.spec.containers -}}
{{- $_ := set .object.spec "replicas" $values.replicas -}}
{{- $checksum := include "pyscheduler.config" .root | sha256sum -}}
{{- $_ := set $template.metadata "annotations" (dict "checksum/config" $checksum) -}}
{{- $tag := $values.image.tag | default .root.Chart.AppVersion -}}
{{- $_ := set $container "image" (printf "%s:%s" $values.image.repository $tag) -}}
{{- $_ := set $container "imagePullPolicy" $values.image.pullPolicy -}}
{{- $_ := set $container "args" (concat $container.args ($values.extraArgs | default list)) -}}
{{- $_ := set $container "resources" $values.resources -}}
{{- range $field := list "imagePullSecrets" "nodeSelector" "tolerations" -}}
{{- with get $values $field -}}
{{- $_ := set $template.spec $field . -}}
{{- end -}}
{{- end -}}
{{- toYaml .object -}}
{{- end -}}
