{{/* Name of all objects. */}}
{{- define "dovetail.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Pod selector; immutable for a release. */}}
{{- define "dovetail.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of all objects. */}}
{{- define "dovetail.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "dovetail.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "dovetail.annotations" -}}
{{- with .Values.additionalAnnotations -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{- define "dovetail.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "dovetail.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is required if serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "dovetail.image" -}}
{{- $image := .Values.controller.image -}}
{{- $repository := required "controller.image.repository is required: the repository of the image built from deploy/Dockerfile" $image.repository -}}
{{- if regexMatch "(^|/)karpenter/controller$" $repository -}}
{{- fail (printf "controller.image.repository is Karpenter's image (%s): set it to the repository of the image built from deploy/Dockerfile, and controller.image.tag and digest to its own or to \"\"" $repository) -}}
{{- end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "dovetail.leaseNamespace" -}}
{{- default .Release.Namespace .Values.settings.leaderElectionNamespace -}}
{{- end -}}

{{/* Affinity of the values; terms without a labelSelector get that of the pods. */}}
{{- define "dovetail.affinity" -}}
{{- $selector := dict "matchLabels" (include "dovetail.selectorLabels" . | fromYaml) -}}
{{- $affinity := deepCopy .Values.affinity -}}
{{- range $term := dig "podAntiAffinity" "requiredDuringSchedulingIgnoredDuringExecution" list $affinity -}}
{{- if not (hasKey $term "labelSelector") -}}
{{- $_ := set $term "labelSelector" $selector -}}
{{- end -}}
{{- end -}}
{{- toYaml $affinity -}}
{{- end -}}

{{- define "dovetail.topologySpreadConstraints" -}}
{{- $selector := dict "matchLabels" (include "dovetail.selectorLabels" . | fromYaml) -}}
{{- $spread := list -}}
{{- range .Values.topologySpreadConstraints -}}
{{- $spread = append $spread (merge (deepCopy .) (dict "labelSelector" $selector)) -}}
{{- end -}}
{{- toYaml $spread -}}
{{- end -}}

{{/* Feature gates of the values as NodeRepair=false,...; StaticCapacity comes before our default of staticCapacity. */}}
{{- define "dovetail.featureGates" -}}
{{- $gates := list -}}
{{- $seen := dict -}}
{{- range $name, $enabled := . -}}
{{- $gate := printf "%s%s" (substr 0 1 $name | upper) (substr 1 -1 $name) -}}
{{- if not (hasKey $seen $gate) -}}
{{- $_ := set $seen $gate true -}}
{{- $gates = append $gates (printf "%s=%t" $gate $enabled) -}}
{{- end -}}
{{- end -}}
{{- join "," $gates -}}
{{- end -}}

{{/* Security context of the container. Karpenter's defaults have empty maps, which the API server rejects. */}}
{{- define "dovetail.securityContext" -}}
{{- $given := dict -}}
{{- range $field, $value := .Values.controller.securityContext -}}
{{- if not (and (kindIs "map" $value) (empty $value)) -}}
{{- $_ := set $given $field $value -}}
{{- end -}}
{{- end -}}
{{- $strict := dict "runAsNonRoot" true "runAsUser" 65532 "runAsGroup" 65532 "readOnlyRootFilesystem" true "allowPrivilegeEscalation" false "capabilities" (dict "drop" (list "ALL")) "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- merge (deepCopy $given) $strict | toYaml -}}
{{- end -}}
