{{- define "engine.deployment" -}}
{{- $values := .root.Values -}}
{{- $own := index $values .tide -}}
{{- $grace := ternary $values.graceSeconds $values.offline.graceSeconds (eq .tide "online") -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "engine.name" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "engine.labels" .root | nindent 4 }}
    gd2fs/tide: {{ .tide }}
spec:
  {{- if not $own.autoscaling.enabled }}
  replicas: {{ $own.replicas }}
  {{- end }}
  strategy:
    rollingUpdate: {maxSurge: 0, maxUnavailable: 1}
  selector:
    matchLabels: {{- include "engine.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "engine.selector" . | nindent 8 }}
        gd2fs/client: "true"
        {{- with $values.podLabels }}{{ toYaml . | nindent 8 }}{{ end }}
      {{- with $values.podAnnotations }}
      annotations: {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      automountServiceAccountToken: false
      enableServiceLinks: false
      priorityClassName: {{ include "engine.priority" . }}
      terminationGracePeriodSeconds: {{ $grace }}
      securityContext: {{- toYaml $values.podSecurityContext | nindent 8 }}
      {{- with $values.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.runtimeClassName }}
      runtimeClassName: {{ . }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.affinity }}
      affinity: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.topologySpread }}
      topologySpreadConstraints:
        {{- range . }}
        - topologyKey: {{ .topologyKey }}
          maxSkew: {{ .maxSkew }}
          whenUnsatisfiable: {{ .whenUnsatisfiable }}
          labelSelector:
            matchLabels: {{- include "engine.selector" $ | nindent 14 }}
        {{- end }}
      {{- end }}
      containers:
        - name: engine
          image: {{ include "engine.image" .root }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          command: {{- include "engine.args" . | nindent 12 }}
          env: {{- include "engine.env" .root | nindent 12 }}
          ports:
            - {name: http, containerPort: {{ include "engine.port" .root }}, protocol: TCP}
          startupProbe:
            httpGet: {path: /health, port: http}
            periodSeconds: 5
            timeoutSeconds: 5
            failureThreshold: {{ max 1 (div (int $values.startupSeconds) 5) }}
          readinessProbe:
            httpGet: {path: /health, port: http}
            periodSeconds: 5
            timeoutSeconds: 5
          livenessProbe:
            httpGet: {path: /health, port: http}
            periodSeconds: 20
            timeoutSeconds: 20
            failureThreshold: 6
          lifecycle:
            preStop: {exec: {command: [/bin/sh, -c, sleep 5]}}
          resources: {{- include "engine.resources" .root | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            capabilities: {drop: [ALL]}
          volumeMounts: {{- include "engine.mounts" .root | nindent 12 }}
      volumes: {{- include "engine.volumes" .root | nindent 8 }}
{{- end -}}

{{- define "engine.env" -}}
- name: GD2FS_CPADDR
  value: {{ .Values.store.address | quote }}
- name: GD2FS_CLUSTER
  value: {{ .Values.store.cluster | quote }}
{{- with .Values.store.tokenSecret }}{{ if .name }}
- name: GD2FS_TOKEN_FILE
  value: /var/run/gd2fs/token/{{ .key }}
{{- end }}{{ end }}
{{- with .Values.store.tlsSecret }}{{ if .name }}
- name: GD2FS_TLS_CA
  value: /var/run/gd2fs/tls/{{ .key }}
- name: GD2FS_TLS_NAME
  value: {{ .serverName | default (include "engine.host" $) }}
{{- end }}{{ end }}
{{- with .Values.model.hubSecret }}{{ if .name }}
- name: {{ .variable }}
  valueFrom: {secretKeyRef: {name: {{ .name }}, key: {{ .key }}}}
{{- end }}{{ end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "engine.resources" -}}
{{- $asked := deepCopy .Values.resources -}}
{{- $requests := $asked.requests | default dict -}}
{{- $limits := $asked.limits | default dict -}}
{{- if gt (int .Values.gpu.count) 0 -}}
{{- $_ := set $limits .Values.gpu.resource (int .Values.gpu.count) -}}
{{- end -}}
{{- toYaml (dict "requests" $requests "limits" $limits) -}}
{{- end -}}

{{- define "engine.mounts" -}}
- {name: shm, mountPath: /dev/shm}
{{- with .Values.store.tokenSecret }}{{ if .name }}
- {name: token, mountPath: /var/run/gd2fs/token, readOnly: true}
{{- end }}{{ end }}
{{- with .Values.store.tlsSecret }}{{ if .name }}
- {name: tls, mountPath: /var/run/gd2fs/tls, readOnly: true}
{{- end }}{{ end }}
{{- with .Values.model.volume }}{{ if ne .kind "none" }}
- {name: model, mountPath: {{ .mountPath }}, readOnly: true}
{{- end }}{{ end }}
{{- end -}}

{{- define "engine.volumes" -}}
- name: shm
  emptyDir: {medium: Memory, sizeLimit: {{ .Values.shmSize }}}
{{- with .Values.store.tokenSecret }}{{ if .name }}
- name: token
  secret: {secretName: {{ .name }}, items: [{key: {{ .key }}, path: {{ .key }}}]}
{{- end }}{{ end }}
{{- with .Values.store.tlsSecret }}{{ if .name }}
- name: tls
  secret: {secretName: {{ .name }}, items: [{key: {{ .key }}, path: {{ .key }}}]}
{{- end }}{{ end }}
{{- with .Values.model.volume }}
{{- if eq .kind "claim" }}
- name: model
  persistentVolumeClaim: {claimName: {{ .claim }}, readOnly: true}
{{- else if eq .kind "hostPath" }}
- name: model
  hostPath: {path: {{ .hostPath }}, type: Directory}
{{- end }}
{{- end }}
{{- end -}}
