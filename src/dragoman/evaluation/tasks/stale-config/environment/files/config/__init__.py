"""The configuration of the service."""
