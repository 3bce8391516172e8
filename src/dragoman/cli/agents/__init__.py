"""What `dragoman agents` does, one part per module: look, write down, get, examine.

It knows words, tables and questions; which agents exist and who may run what is `dragoman.registry`'s. Everything that
comes from a repository, the registry or an agent is made harmless before it is shown.
Read `place.py` first.
"""
