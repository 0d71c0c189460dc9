"""Consolidation: delete or replace nodes to reduce cost.

Three ways answer the question "what replaces these nodes?", from fast to exact:

===================  ==========================  ===================================
``batch_estimate``   all candidates at once      first evaluation of a pass
``estimate``         one node, arrays only       after commands changed the cluster
``simulation``       any set of nodes, solver    sets, final check of each command
===================  ==========================  ===================================

::

    consolidate ---- estimate_savings ----> ConsolidationEvaluator --+--> BatchEstimator
        |                                       |                    +--> Estimator
        +-- multi_node (sets) -- simulate_set --+                    +--> SchedulingSimulation
        +-- fleet_replacement ------------------+
        v
    Command -> validation

A pass is planned twice: single nodes and small sets first; then, if nodes cost much
more than the value of their pods (``pod_values``), as a step towards a cheaper fleet
(``fleet_replacement``). The better plan is taken.

Invariant: an estimate ignores topology, host ports, volumes, preferences and limits.
Its price is therefore a lower bound, and its saving an upper bound. A candidate that
an estimate rejects is kept without a simulation. A candidate that an inexact
estimate accepts is simulated before it becomes a command. An estimate that is
exact and needs no new node becomes a command directly.
"""
