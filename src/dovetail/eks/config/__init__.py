"""cluster.yaml: what a user may say about a cluster, and what is wrong with it."""
