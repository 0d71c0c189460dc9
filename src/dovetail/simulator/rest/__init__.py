"""The API server in memory over Kubernetes REST, for kubectl and client libraries."""
