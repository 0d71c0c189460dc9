"""Kube-controller-manager simulator: workload, node and pod controllers."""
