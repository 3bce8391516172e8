"""Models: where answers come from.

Each module is one source: a script, a cassette, a provider. None is imported before it is chosen.
"""
