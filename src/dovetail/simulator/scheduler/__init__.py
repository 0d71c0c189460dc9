"""A stand-in for kube-scheduler: filters, scores and binds pods."""
