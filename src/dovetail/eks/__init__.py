"""A cluster from nothing and back: cluster.yaml → wanted resources → plan → steps."""
