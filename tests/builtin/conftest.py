"""Settings of the property tests in this folder."""

from hypothesis import HealthCheck, settings

# On a busy machine an example may take a second; that says nothing about the code.
settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy machine")
