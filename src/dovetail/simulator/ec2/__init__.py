"""EC2 simulator: an account with capacity, billing, throttling and interruptions.

``cloudprovider`` implements the CloudProvider port on top of it.
"""
