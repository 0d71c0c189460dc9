"""Volume controllers: claims get volumes, and volumes get attached to nodes."""
