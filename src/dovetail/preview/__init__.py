"""Preview of a change: what it would do to a cluster, played in the simulator.

A live cluster or a dump becomes two simulated clusters. One gets the change, the other
does not, so that what would have happened anyway is not counted as an effect::

    dump or cluster -- fork --> without the change -- play --> Observation --+
                    +-- fork --> change -- play ------------> Observation --+--> Preview

``manifests`` reads and admits changed files, ``change`` applies them, ``rest`` decides when
nothing moves any more, ``observer`` records what happens, ``comparison`` builds the report,
and ``limits`` checks it.
"""
