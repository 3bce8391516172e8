"""Measures this library against the official SDKs and against the floor; run it with ``python -m benchmarks``."""
