"""The models that the built-in agent can use: a script, a recorded cassette, or a provider's model.

Owns the choice of a model by name and its calls. Does not run tools. A source is imported when it is chosen. Read
`model.py` first.
"""
