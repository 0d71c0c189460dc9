"""In-memory state: watch events in, immutable snapshots out.

Everything here is rebuilt from the API server after a restart.
"""
