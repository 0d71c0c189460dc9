"""What is wrong with a cluster's set-up: facts read once, and one small check for each fault."""
