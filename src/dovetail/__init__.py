"""Dovetail: a node autoscaler for Kubernetes on AWS EKS."""

__version__ = "0.1.0"
