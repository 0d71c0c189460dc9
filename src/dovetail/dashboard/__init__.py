"""Live view of a cluster: where its documents come from (``sources``), and the web page."""
