"""Sweep: one trace, replayed with many settings.

::

    --vary --> nodepool_keys.py, design.py   points: sets of settings
           --> worker.py                     one replay of a point
           --> processes.py, ray_cluster.py  where points run
           --> results.py                    a line per point, on disk
           --> choice.py                     Pareto front, and the point to choose
"""
