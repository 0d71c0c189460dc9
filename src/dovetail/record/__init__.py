"""Sources of traces: a cluster that is watched, and files of other systems."""
