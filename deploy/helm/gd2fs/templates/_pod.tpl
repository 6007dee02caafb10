{{- define "gd2fs.args" -}}
{{- $cache := .Values.cache -}}
- serve
- --cluster={{ include "gd2fs.cluster" . }}
- --name=$(POD_NAME)
- --kubernetes={{ .Release.Namespace }}
- --listen=tcp://{{ include "gd2fs.any" . }}:{{ .Values.ports.data }}
- --advertise=tcp://{{ include "gd2fs.self" . }}:{{ .Values.ports.data }}
- --admin={{ include "gd2fs.any" . }}:{{ .Values.ports.admin }}
- --memory={{ $cache.memory }}B
- --arena={{ ternary (ternary "file:/dev/hugepages/arena" "file:/arena/arena" (eq $cache.arena "hugetlb")) $cache.arena $cache.kept }}
- --state-dir=/var/lib/gd2fs
- --threads={{ .Values.node.threads }}
- --lease={{ .Values.node.leaseSeconds }}
- --ramp={{ .Values.node.rampSeconds }}
- --weight={{ .Values.node.weight }}
- --move-rate={{ .Values.node.moveRate }}
- --replicas={{ .Values.copies }}
{{- if .Values.nvme.enabled }}
- --nvme={{ include "gd2fs.disks" . }}
- --nvme-write={{ .Values.nvme.write }}
- --nvme-keep={{ .Values.nvme.keep }}
{{- with .Values.nvme.rate }}
- --nvme-rate={{ . }}
{{- end }}
{{- end }}
{{- if .Values.config }}
- --config=/etc/gd2fs/gd2fs.toml
{{- end }}
{{- if .Values.auth.tenantsSecret }}
- --tenants=/var/run/gd2fs/tenants/tenants.toml
{{- end }}
{{- if .Values.tls.enabled }}
- --tls-clients={{ .Values.tls.clients }}
{{- end }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{/* The same for the node and for `gd2fs drain` in it. */}}
{{- define "gd2fs.env" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- name: GD2FS_CLUSTER
  value: {{ include "gd2fs.cluster" . | quote }}
- name: GD2FS_CPADDR
  value: gd2fs://{{ include "gd2fs.self" . }}:{{ .Values.ports.data }}
- name: GD2FS_TRANSPORT
  value: auto
- name: GD2FS_TOKEN_FILE
  value: /var/run/gd2fs/token/token
{{- if .Values.tls.enabled }}
- name: GD2FS_TLS_CERT
  value: /var/run/gd2fs/tls/tls.crt
- name: GD2FS_TLS_KEY
  value: /var/run/gd2fs/tls/tls.key
- name: GD2FS_TLS_CA
  value: /var/run/gd2fs/tls/ca.crt
- name: GD2FS_TLS_NAME
  value: {{ include "gd2fs.tlsName" . }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "gd2fs.probe" -}}
path: {{ index . 1 }}
port: admin
scheme: {{ ternary "HTTPS" "HTTP" (index . 0).Values.tls.enabled }}
{{- end -}}

{{- define "gd2fs.mounts" -}}
- {name: state, mountPath: /var/lib/gd2fs}
- {name: tmp, mountPath: /tmp}
- {name: token, mountPath: /var/run/gd2fs/token, readOnly: true}
{{- if .Values.auth.tenantsSecret }}
- {name: tenants, mountPath: /var/run/gd2fs/tenants, readOnly: true}
{{- end }}
{{- if .Values.tls.enabled }}
- {name: tls, mountPath: /var/run/gd2fs/tls, readOnly: true}
{{- end }}
{{- if .Values.config }}
- {name: config, mountPath: /etc/gd2fs, readOnly: true}
{{- end }}
{{- if .Values.cache.kept }}
- {name: arena, mountPath: {{ ternary "/dev/hugepages" "/arena" (eq .Values.cache.arena "hugetlb") }}}
{{- end }}
{{- if .Values.nvme.enabled }}
{{- if eq .Values.nvme.kind "hostPath" }}
{{- range $i, $path := .Values.nvme.hostPaths }}
- {name: nvme-{{ $i }}, mountPath: /nvme/{{ $i }}, subPathExpr: $(POD_NAME)}
{{- end }}
{{- else }}
{{- range $i := until (int .Values.nvme.devices) }}
- {name: nvme-{{ $i }}, mountPath: /nvme/{{ $i }}}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "gd2fs.volumes" -}}
- name: state
  emptyDir: {}
- name: tmp
  emptyDir: {sizeLimit: 1Gi}
- name: token
  secret: {secretName: {{ include "gd2fs.tokenSecret" . }}, defaultMode: 0440}
{{- with .Values.auth.tenantsSecret }}
- name: tenants
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- if .Values.tls.enabled }}
- name: tls
  secret: {secretName: {{ include "gd2fs.tlsSecret" . }}, defaultMode: 0440}
{{- end }}
{{- if .Values.config }}
- name: config
  configMap: {name: {{ include "gd2fs.fullname" . }}}
{{- end }}
{{- if .Values.cache.kept }}
- name: arena
  emptyDir: {medium: {{ ternary (printf "HugePages-%s" .Values.cache.hugepageSize) "Memory" (eq .Values.cache.arena "hugetlb") }}}
{{- end }}
{{- if .Values.nvme.enabled }}
{{- if eq .Values.nvme.kind "hostPath" }}
{{- range $i, $path := .Values.nvme.hostPaths }}
- name: nvme-{{ $i }}
  hostPath: {path: {{ $path }}, type: Directory}
{{- end }}
{{- else if eq .Values.nvme.kind "ephemeral" }}
{{- range $i := until (int .Values.nvme.devices) }}
- name: nvme-{{ $i }}
  ephemeral:
    volumeClaimTemplate:
      spec: {{- include "gd2fs.claim" $ | nindent 8 }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "gd2fs.claim" -}}
accessModes: [ReadWriteOnce]
{{- with .Values.nvme.storageClassName }}
storageClassName: {{ . }}
{{- end }}
resources: {requests: {storage: {{ .Values.nvme.size }}}}
{{- end -}}
