"""What is wrong with a set-up is found, and nothing else."""
