{{/* What docs/guides/sglang.md and vllm.md say; a test compares. */}}
{{- define "engine.args" -}}
{{- $values := .root.Values -}}
{{- if eq $values.engine "sglang" -}}
{{ include "engine.sglang" .root }}
{{- else -}}
{{ include "engine.vllm" .root }}
{{- end }}
{{- range concat $values.extraArgs (index $values .tide).extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "engine.model" -}}
{{- with .Values.model -}}
{{- if eq .volume.kind "none" }}{{ .path }}{{ else }}{{ clean (printf "%s/%s" .volume.mountPath .path) }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "engine.store" -}}
{{- toJson (merge (dict "cp" .Values.store.address "cluster" .Values.store.cluster) .Values.store.settings) -}}
{{- end -}}

{{- define "engine.sglang" -}}
{{- $backend := dict "backend_name" "gd2fs" "module_path" "gd2fs.engines.sglang" "class_name" "GD2FSStorage" "interface_v1" 1 -}}
{{- $settings := merge $backend (include "engine.store" . | fromJson) -}}
- python3
- -m
- sglang.launch_server
- --model-path={{ include "engine.model" . }}
- --served-model-name={{ .Values.model.name }}
- --host=0.0.0.0
- --port={{ include "engine.port" . }}
{{- if gt (int .Values.gpu.count) 1 }}
- --tp-size={{ .Values.gpu.count }}
{{- end }}
- --page-size={{ .Values.sglang.pageTokens }}
- --enable-metrics
- --enable-cache-report
- --enable-hierarchical-cache
- --hicache-ratio={{ .Values.sglang.hicacheRatio }}
- --hicache-mem-layout=page_first
- --hicache-write-policy=write_through
- --hicache-storage-backend=dynamic
- --hicache-storage-prefetch-policy=wait_complete
{{- if .Values.sglang.bufferOnly }}
- --hicache-host-memory-mode=buffer_only
{{- end }}
- {{ printf "--hicache-storage-backend-extra-config=%s" (toJson $settings) | quote }}
{{- end -}}

{{- define "engine.vllm" -}}
{{- $tier := merge (dict "type" "gd2fs") (include "engine.store" . | fromJson) -}}
{{- $extra := dict "spec_name" "TieringOffloadingSpec" "cpu_bytes_to_use" (int64 .Values.vllm.poolBytes) "block_size" (int64 .Values.vllm.chunkTokens) "offload_prompt_only" (not .Values.vllm.answers) "secondary_tiers" (list $tier) -}}
{{- $transfer := dict "kv_connector" "OffloadingConnector" "kv_role" "kv_both" "kv_load_failure_policy" "recompute" "kv_connector_extra_config" $extra -}}
- vllm
- serve
- {{ include "engine.model" . }}
- --served-model-name={{ .Values.model.name }}
- --host=0.0.0.0
- --port={{ include "engine.port" . }}
{{- if gt (int .Values.gpu.count) 1 }}
- --tensor-parallel-size={{ .Values.gpu.count }}
{{- end }}
- --prefix-caching-hash-algo=sha256_cbor
- --shutdown-timeout=10
- {{ printf "--kv-transfer-config=%s" (toJson $transfer) | quote }}
{{- end -}}
