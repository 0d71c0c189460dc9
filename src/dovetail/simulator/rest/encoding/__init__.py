"""Content negotiation, request options, request bodies and responses."""
