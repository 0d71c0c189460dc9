"""Cluster cache: an in-memory view of the API server.

::

    API server -- list, watch --> kube.reflector --+            +--> Index
         ^                                         v            |
         |                                 ClusterCache: Store --+--> NodeJoin
         |                                         ^            |
         +-- writes -- WriteThroughClient ---------+            +--> handlers -> work queues
                        (responses)

Each kind has a store; indexes, the node join and the event handlers of controllers
follow its changes. A reflector fills the store from a list, then from watch events
in the order of the watch. ``WriteThroughClient`` applies the response to every own
write at once, so that a controller never acts twice on stale state. A response may
arrive before or after its watch event: the store keeps the object with the higher
resource version, and ignores responses older than what the watch has reported.
Tombstones keep an object that this process deleted from coming back with a late event.
"""
