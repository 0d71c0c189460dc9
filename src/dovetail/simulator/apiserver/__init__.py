"""An API server in memory with Kubernetes' semantics; ``server.py`` is the way in."""
