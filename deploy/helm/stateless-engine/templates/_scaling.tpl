{{- define "engine.autoscaler" -}}
{{- $own := (index .root.Values .tide).autoscaling -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ include "engine.name" . }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "engine.labels" .root | nindent 4 }}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{ include "engine.name" . }}}
  minReplicas: {{ $own.minReplicas }}
  maxReplicas: {{ $own.maxReplicas }}
  metrics:
    {{- if eq $own.metric.kind "Pods" }}
    - type: Pods
      pods:
        metric: {name: {{ include "engine.metric" . }}}
        target: {type: AverageValue, averageValue: {{ $own.metric.averageValue | quote }}}
    {{- else }}
    - type: External
      external:
        metric:
          name: {{ include "engine.metric" . }}
          selector:
            matchLabels: {{- toYaml $own.metric.selector | nindent 14 }}
        target: {type: AverageValue, averageValue: {{ $own.metric.averageValue | quote }}}
    {{- end }}
  behavior:
    scaleUp:
      stabilizationWindowSeconds: {{ $own.scaleUp.stabilizationSeconds }}
      selectPolicy: Max
      policies:
        - {type: Pods, value: {{ $own.scaleUp.pods }}, periodSeconds: {{ $own.scaleUp.periodSeconds }}}
        - {type: Percent, value: {{ $own.scaleUp.percent }}, periodSeconds: {{ $own.scaleUp.periodSeconds }}}
    scaleDown:
      stabilizationWindowSeconds: {{ $own.scaleDown.stabilizationSeconds }}
      policies:
        - {type: Pods, value: {{ $own.scaleDown.pods }}, periodSeconds: {{ $own.scaleDown.periodSeconds }}}
{{- end -}}

{{- define "engine.service" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "engine.name" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "engine.labels" .root | nindent 4 }}
    gd2fs/tide: {{ .tide }}
spec:
  type: {{ .root.Values.service.type }}
  sessionAffinity: None
  selector: {{- include "engine.selector" . | nindent 4 }}
  ports:
    - {name: http, port: {{ .root.Values.service.port }}, targetPort: http}
{{- end -}}
