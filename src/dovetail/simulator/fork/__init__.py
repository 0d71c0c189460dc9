"""Fork of a cluster: its recorded objects become a simulated cluster.

::

    objects in wire format --> records.py   by kind and name; what is unusable is reported
                          --> workloads.py  owners, revisions and run times of pods
                          --> instances.py  an instance behind every node and NodeClaim
                          --> calibration.py  latencies of this cluster
                          --> restore.py    all of it, in the simulated API server, EC2 and kubelets

``SimulatedCluster.from_snapshot`` is the entry point. Nothing that the objects lack stops it:
what was assumed, and what could be used only in part, is in the ``ForkReport``.
"""
