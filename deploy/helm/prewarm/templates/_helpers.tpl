{{- define "prewarm.fullname" -}}
{{- .Values.fullnameOverride | default .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "prewarm.selector" -}}
app.kubernetes.io/name: prewarm
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* metadata of an object: the argument is a list of the context and what follows the name. */}}
{{- define "prewarm.metadata" -}}
{{- $ := index . 0 -}}
name: {{ include "prewarm.fullname" $ }}{{ index . 1 }}
namespace: {{ $.Release.Namespace }}
labels:
  {{- include "prewarm.selector" $ | nindent 2 }}
{{- end -}}

{{- define "prewarm.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "prewarm.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end -}}

{{- define "prewarm.image" -}}
{{- $repository := required "image.repository: no image is published yet. Push one that `make image` has built to your registry, and name it: --set image.repository=registry.example.com/prewarm" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ required "image.tag: name the tag of the image that you have pushed: --set image.tag=0.2.0" (.Values.image.tag | default .Chart.AppVersion) }}
{{- end -}}
{{- end -}}

{{- define "prewarm.accessURL" -}}
{{- if .Values.accessURL -}}
{{ .Values.accessURL }}
{{- else if .Values.ingress.enabled -}}
{{ ternary "https" "http" (ne .Values.ingress.tlsSecret "") }}://{{ .Values.ingress.host }}
{{- else if .Values.httpRoute.enabled -}}
https://{{ first .Values.httpRoute.hostnames }}
{{- else -}}
http://{{ include "prewarm.fullname" . }}.{{ .Release.Namespace }}.svc{{ if ne (int .Values.service.port) 80 }}:{{ .Values.service.port }}{{ end }}
{{- end -}}
{{- end -}}

{{/* The Secret of the chart's own, which holds what was given as a value. */}}
{{- define "prewarm.ownSecret" -}}
{{- if or .Values.database.url .Values.encryptionKeys.value -}}
{{ include "prewarm.fullname" . }}
{{- end -}}
{{- end -}}

{{/* All files that the server reads, as the sources of one volume. */}}
{{- define "prewarm.files" -}}
{{- $own := include "prewarm.fullname" . -}}
{{- with .Values.database -}}
{{- if and .url .existingSecret.name }}{{ fail "database: give either existingSecret.name or url, not both" }}{{ end -}}
{{- if not (or .url .existingSecret.name) }}{{ fail "database: name the Secret that holds the URL of PostgreSQL as database.existingSecret.name, or give the URL as database.url" }}{{ end -}}
- secret:
    name: {{ .existingSecret.name | default $own }}
    items: [{key: {{ if .url }}postgres-url{{ else }}{{ .existingSecret.key }}{{ end }}, path: postgres-url}]
{{- end }}
{{- with .Values.encryptionKeys -}}
{{- if and .value .existingSecret.name }}{{ fail "encryptionKeys: give either existingSecret.name or value, not both" }}{{ end -}}
{{- if not (or .value .existingSecret.name) }}{{ fail "encryptionKeys: name the Secret that holds the keys as encryptionKeys.existingSecret.name. All replicas need the same: printf 'main:%s' \"$(head -c 32 /dev/urandom | base64)\" makes one" }}{{ end }}
- secret:
    name: {{ .existingSecret.name | default $own }}
    items: [{key: {{ if .value }}encryption-keys{{ else }}{{ .existingSecret.key }}{{ end }}, path: encryption-keys}]
{{- end }}
{{- with .Values.accessCA.existingSecret }}
{{- if .name }}
- secret:
    name: {{ .name }}
    items: [{key: {{ .key }}, path: access-ca.pem}]
{{- end }}
{{- end }}
{{- with .Values.metrics.existingSecret }}
{{- if .name }}
- secret:
    name: {{ .name }}
    items: [{key: {{ .key }}, path: metrics-token}]
{{- end }}
{{- end }}
{{- with .Values.notify.existingSecret }}
{{- if .name }}
- secret:
    name: {{ .name }}
    items:
      - {key: {{ .urlKey }}, path: notify-url}
      {{- if .signingKey }}
      - {key: {{ .signingKey }}, path: notify-secret}
      {{- end }}
{{- end }}
{{- end }}
{{- end -}}
