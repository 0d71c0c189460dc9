"""Small charts with the names and versions of third-party charts, packaged by helm."""

import shutil
from pathlib import Path
from typing import Any

import yaml

from dovetail.eks.desired.charts import ADDONS, CONTROLLERS, Chart
from tests.support.helm.charts import CRDS, helm

_WORKLOAD = """\
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .Values.serviceAccount.name | default .Release.Name }}
  namespace: {{ .Release.Namespace }}
  {{- with .Values.serviceAccount.annotations }}
  annotations: {{ toJson . }}
  {{- end }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-values
  namespace: {{ .Release.Namespace }}
data:
  values: {{ toJson .Values | quote }}
---
apiVersion: apps/v1
kind: KIND
metadata:
  name: {{ .Release.Name }}
  namespace: {{ .Release.Namespace }}
spec:
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec:
      serviceAccountName: {{ .Values.serviceAccount.name | default .Release.Name }}
      nodeSelector: {{ toJson (.Values.nodeSelector | default dict) }}
      tolerations: {{ toJson (.Values.tolerations | default list) }}
      containers:
        - name: main
          image: registry.example.com/{{ .Chart.Name }}:{{ .Chart.Version }}
          env:
            - {name: CLUSTER_NAME, value: {{ .Values.settings.clusterName | quote }}}
            - {name: INTERRUPTION_QUEUE, value: {{ .Values.settings.interruptionQueue | quote }}}
            {{- with .Values.controller.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          resources: {requests: {cpu: 100m, memory: 64Mi}}
"""
_DAEMON_SET = "node-termination-handler"
_KEEP_ANNOTATION = "    helm.sh/resource-policy: keep\n"


def packaged(scratch: Path) -> list[tuple[Chart, Path]]:
    """Return each third-party chart and the archive that replaces it."""
    upstream, definitions = CONTROLLERS["karpenter"]
    archives = [(chart, _workload(scratch, chart, name)) for name, chart in ADDONS.items()]
    archives.append((upstream, _workload(scratch, upstream, "karpenter")))
    archives.append((definitions, _definitions(scratch, definitions)))
    return archives


def name_of(chart: Chart) -> str:
    return chart.chart.rpartition("/")[2]


def _workload(scratch: Path, chart: Chart, addon: str) -> Path:
    folder = _chart(scratch, chart)
    kind = "DaemonSet" if addon == _DAEMON_SET else "Deployment"
    (folder / "templates" / "all.yaml").write_text(_WORKLOAD.replace("KIND", kind))
    (folder / "values.yaml").write_text("settings: {}\ncontroller: {}\nserviceAccount: {}\n")
    return _archive(scratch, folder)


def _definitions(scratch: Path, chart: Chart) -> Path:
    """Package the CRDs as upstream does: uninstall deletes them, unlike ours."""
    folder = _chart(scratch, chart)
    for path in (CRDS / "templates").iterdir():
        text = path.read_text()
        assert _KEEP_ANNOTATION in text
        (folder / "templates" / path.name).write_text(text.replace(_KEEP_ANNOTATION, '    of: "upstream"\n'))
    return _archive(scratch, folder)


def _chart(scratch: Path, chart: Chart) -> Path:
    folder = scratch / "sources" / name_of(chart)
    (folder / "templates").mkdir(parents=True)
    metadata: dict[str, Any] = {"apiVersion": "v2", "name": name_of(chart), "version": chart.version}
    (folder / "Chart.yaml").write_text(yaml.safe_dump(metadata))
    return folder


def _archive(scratch: Path, folder: Path) -> Path:
    output = helm("package", folder, "--destination", scratch / "archives")
    shutil.rmtree(folder)
    return Path(output.strip().rpartition(" ")[2])
