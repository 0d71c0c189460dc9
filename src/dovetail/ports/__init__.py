"""Ports: protocols between the controllers and the outside.

Each has a real implementation (``aws``, ``kube``, ``host``, ``observability``) and a
simulated one (``simulator``).
"""

from dovetail.ports.cloudprovider import CloudProvider
from dovetail.ports.event_loop import EventLoop
from dovetail.ports.executor import Executor
from dovetail.ports.kube_client import KubeClient
from dovetail.ports.telemetry import EventRecorder, Log, Metrics

__all__ = ["CloudProvider", "EventLoop", "EventRecorder", "Executor", "KubeClient", "Log", "Metrics"]
