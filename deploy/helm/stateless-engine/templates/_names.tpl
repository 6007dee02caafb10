{{- define "engine.fullname" -}}
{{ .Release.Name | trunc 48 | trimSuffix "-" }}
{{- end -}}

{{- define "engine.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* Of one tide: (dict "root" $ "tide" "online"). */}}
{{- define "engine.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
gd2fs/tide: {{ .tide }}
{{- end -}}

{{- define "engine.name" -}}
{{ include "engine.fullname" .root }}-{{ .tide }}
{{- end -}}

{{/* Of the store's first address. */}}
{{- define "engine.host" -}}
{{ .Values.store.address | trimPrefix "gd2fs://" | splitList "," | first | regexFind "^[^:]+" }}
{{- end -}}

{{- define "engine.port" -}}
{{ ternary 30000 8000 (eq .Values.engine "sglang") }}
{{- end -}}

{{- define "engine.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "engine.priority" -}}
{{- $class := index .root.Values.priorityClasses .tide -}}
{{ $class.name | default (include "engine.name" .) }}
{{- end -}}

{{- define "engine.metric" -}}
{{- $own := (index .root.Values .tide).autoscaling.metric.name -}}
{{ $own | default (ternary "sglang_num_queue_reqs" "vllm_num_requests_waiting" (eq .root.Values.engine "sglang")) }}
{{- end -}}
