"""Kubelets: nodes that register, beat and run what is bound to them."""
