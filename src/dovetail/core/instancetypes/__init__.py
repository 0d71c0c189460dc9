"""From EC2's facts to instance types that a NodePool could buy."""
