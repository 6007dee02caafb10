{{- define "gd2fs.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gd2fs.cluster" -}}
{{ .Values.cluster | default .Release.Name }}
{{- end -}}

{{- define "gd2fs.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gd2fs.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "gd2fs.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "gd2fs.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gd2fs.account" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "gd2fs.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end -}}

{{- define "gd2fs.tokenSecret" -}}
{{ .Values.auth.existingSecret | default (printf "%s-token" (include "gd2fs.fullname" .)) }}
{{- end -}}

{{- define "gd2fs.tlsSecret" -}}
{{ .Values.tls.existingSecret | default (printf "%s-tls" (include "gd2fs.fullname" .)) }}
{{- end -}}

{{/* Pods are reached by addresses that no certificate has: this name is in all of them. */}}
{{- define "gd2fs.tlsName" -}}
{{ .Values.tls.name | default (printf "%s.%s.svc" (include "gd2fs.fullname" .) .Release.Namespace) }}
{{- end -}}

{{- define "gd2fs.any" -}}
{{ ternary "[::]" "0.0.0.0" (eq .Values.ipFamily "IPv6") }}
{{- end -}}

{{- define "gd2fs.self" -}}
{{ ternary "[$(POD_IP)]" "$(POD_IP)" (eq .Values.ipFamily "IPv6") }}
{{- end -}}

{{/* Folders of the disk tier, in the container. */}}
{{- define "gd2fs.disks" -}}
{{- $count := ternary (len .Values.nvme.hostPaths) (int .Values.nvme.devices) (eq .Values.nvme.kind "hostPath") -}}
{{- range $i := until $count -}}
{{- if $i }},{{ end }}/nvme/{{ $i }}{{ with $.Values.nvme.use }}:{{ . }}{{ end }}
{{- end -}}
{{- end -}}

{{/* Bytes of memory beside huge pages: what is asked for, and the arena where it is ordinary. */}}
{{- define "gd2fs.resources" -}}
{{- $asked := deepCopy .Values.resources -}}
{{- $requests := $asked.requests | default dict -}}
{{- $limits := $asked.limits | default dict -}}
{{- if eq .Values.cache.arena "hugetlb" -}}
{{- $name := printf "hugepages-%s" .Values.cache.hugepageSize -}}
{{- $_ := set $requests $name .Values.cache.memory -}}
{{- $_ := set $limits $name .Values.cache.memory -}}
{{- else -}}
{{- range $each := list $requests $limits -}}
{{- if $each.memory -}}
{{- $sum := add (include "gd2fs.mebibytes" $each.memory) (include "gd2fs.mebibytes" $.Values.cache.memory) -}}
{{- $_ := set $each "memory" (printf "%dMi" $sum) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml (dict "requests" $requests "limits" $limits) -}}
{{- end -}}

{{- define "gd2fs.mebibytes" -}}
{{- if hasSuffix "Ti" . -}}{{ mul (trimSuffix "Ti" . | int64) 1048576 }}
{{- else if hasSuffix "Gi" . -}}{{ mul (trimSuffix "Gi" . | int64) 1024 }}
{{- else -}}{{ trimSuffix "Mi" . | int64 }}
{{- end -}}
{{- end -}}
