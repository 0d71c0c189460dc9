"""Live view: one document that terminal, browser and ``-o json`` render.

``build.ViewBuilder`` makes it from the cluster cache; ``diff`` makes small patches.
"""
