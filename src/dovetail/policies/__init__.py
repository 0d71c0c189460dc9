"""Consolidation policies as plug-ins: loading, their process, and two examples.

A plug-in is an entry point in the group ``dovetail.policies``: a class whose instances are
called with an ``Offer`` and return the moves to take, in order. It runs in a process of its
own (``process``), because Python cannot stop a thread that hangs.
"""

from dovetail.core.disruption.policy import EvictedPod, Move, NewNode, NodePoolState, Offer, RemovedNode

__all__ = ["EvictedPod", "Move", "NewNode", "NodePoolState", "Offer", "RemovedNode"]
