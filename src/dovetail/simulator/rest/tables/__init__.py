"""Table printer: rows and columns of `kubectl get`, by kind."""
