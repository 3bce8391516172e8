"""The version of this distribution, where every layer and the build can read it without importing anything."""

__version__ = "0.1.0"
