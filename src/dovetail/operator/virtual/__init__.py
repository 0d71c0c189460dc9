"""EC2 and kubelets that exist in memory only, on an API server that is real."""
