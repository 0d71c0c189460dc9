"""Gathering facts: from Kubernetes, from AWS, from files. Nothing here changes anything."""
