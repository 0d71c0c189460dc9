"""What a machine is told at its first boot; one module for each image family. All pure."""
