"""Skills: folders with a `SKILL.md`, which a model loads when a task needs them.

Owns which skills there are, how they are listed to models, and what loading one permits. A skill is text for the model:
it permits nothing but reading its own folder. Does not know how a request to a model is made. Read `skill.py` first.
"""
