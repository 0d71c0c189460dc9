"""Sources of documents: a live cluster, a dump, a simulation, or the controller's own process."""
