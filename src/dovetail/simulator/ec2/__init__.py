"""Virtual EC2: an account with instances, stock, prices and moods; and the port on top of it."""
