"""Kube-scheduler simulator: filters and scores nodes as arrays, and binds pods.

Pods that are equal to the scheduler share a pod class, and all nodes are columns of a
node table. Scheduling the next pod of a class therefore costs little::

    watch events --> SchedulingQueue --> SchedulingFramework --> bind, or Unschedulable
                          ^                filters, scores                  |
                          +------------------ QueueingHints <---------------+
"""
