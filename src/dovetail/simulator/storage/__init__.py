"""Storage controllers: bind claims to volumes and attach volumes to nodes."""
