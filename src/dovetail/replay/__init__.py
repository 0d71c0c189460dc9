"""Replay of traces in the simulator: one by one, or many with other settings.

::

    trace --> start.py    what the cluster begins with
          --> demand.py   events, performed on the cluster when their time comes
          --> play.py     the whole trace, observed
          --> report.py   cost, evictions, waiting times
"""
