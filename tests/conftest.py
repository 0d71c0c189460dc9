"""Settings of all tests."""

from hypothesis import HealthCheck, settings

# Time says how busy the machine is, not whether a law holds; bench/ measures speed.
settings.register_profile("dovetail", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dovetail")
