"""Scheduling: which nodes the pending pods get.

``solve`` is the entry point; ``solver.py`` explains the concepts, with a diagram, a
glossary and the order in which ties are broken.

- ``pods/``: which pods, equivalence classes, relaxation of preferences, volumes
- ``constraints/``: compiled classes, topology, limits, minValues, reservations,
  DaemonSet overhead
- ``arrays/``: instance types, NodePools and claim states as arrays
- ``placement/``: placement state; existing nodes, upsized and new claims
- ``fleet/``: the cheapest fleet for independent classes, by column generation
"""

from dovetail.core.scheduling.solver import solve

__all__ = ["solve"]
