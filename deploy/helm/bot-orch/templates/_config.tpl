{{- define "bot-orch.labels" -}}
app.kubernetes.io/name: bot-orch
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "bot-orch.postgres" -}}
{{- if hasPrefix "postgres" .Values.config.database }}yes{{ end }}
{{- end }}

{{- /* The configuration file; pods that share a PostgreSQL log reach each other at their addresses. */ -}}
{{- define "bot-orch.config" -}}
{{- $config := deepCopy .Values.config }}
{{- if include "bot-orch.postgres" . }}
{{- $_ := set $config "cluster" (merge (default dict $config.cluster) (dict "address" "${POD_IP}")) }}
{{- else if gt (int .Values.replicas) 1 }}
{{- fail "replicas: a SQLite log has one writer; set config.database to a postgresql:// URL, or replicas to 1" }}
{{- end }}
{{- toYaml $config }}
{{- end }}
