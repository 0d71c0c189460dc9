"""Events on pods whose own wishes about disruption need a word."""

from datetime import datetime

from dovetail.core.pod.eligibility import remark_on
from dovetail.model.kube.pod import Pod
from dovetail.ports.api_resources import PODS
from dovetail.ports.telemetry import Events


def tell_remark(events: Events, pod: Pod, now: datetime) -> None:
    """Tell a pod how its annotations about disruption are understood, if that is worth a word."""
    remark = remark_on(pod, now)
    if remark is not None:
        events.publish(
            PODS,
            pod.name,
            namespace=pod.namespace,
            uid=pod.uid,
            reason=remark.reason,
            message=remark.message,
            warning=remark.warning,
        )
