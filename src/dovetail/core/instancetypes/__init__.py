"""EC2 type facts and a node class -> instance types that a NodePool could launch.

``build`` combines ``capacity`` (what a node has), ``overhead`` (what the kubelet
reserves), ``labels`` and ``offerings`` (zone, capacity type, price). ``discounts``
and ``billing`` change prices; ``launch_choices`` selects types for a NodeClaim.
"""
