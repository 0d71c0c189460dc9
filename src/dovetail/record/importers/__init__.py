"""Importers: files and databases of other systems become traces."""
