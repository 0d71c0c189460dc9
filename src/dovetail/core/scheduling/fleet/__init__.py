"""Fleet search: the cheapest nodes for independent pods; plain arrays in and out.

This is multi-type vector bin packing, solved by column generation::

    Demand --> FleetProblem            drop useless resources and types (problem.py)
           --> FluidRelaxation         LP with divisible pods: bound, pod values
           --> patterns                ways to fill one node (patterns.py)
           --> FractionalFleet         LP over patterns (column_generation.py)
           --> Fleet                   whole nodes (rounding.py), rest by beam_search.py
           --> Bundles                 equal nodes together

Very small demands and single classes are solved exactly (exact.py). Inner loops are in
kernel.py, and compiled in _kernel.c. Array axes:
K classes, R resources, T types, N nodes, L weightings.
"""

from dovetail.core.scheduling.fleet.problem import Bundle, Demand
from dovetail.core.scheduling.fleet.search import cheapest_fleet

__all__ = ["Bundle", "Demand", "cheapest_fleet"]
