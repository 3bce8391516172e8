"""What the built-in agent can do: one module per tool, each an object with typed arguments.

Owns the work of the tools and what they ask leave for. Whether leave is given is the watchdog's business, where files
and commands live that of the access in `tool.py`. Read `tool.py` first.
"""
