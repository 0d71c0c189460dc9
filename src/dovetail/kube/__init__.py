"""The Kubernetes API over HTTP: writing to it, and watching it into a mirror."""
