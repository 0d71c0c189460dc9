"""Kubelets: register nodes, renew their Leases and run pods."""
