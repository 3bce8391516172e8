"""A stdio agent for editors that leads to a host on another machine and hides that the line to it breaks.

Owns what an editor must not notice: reconnecting, what was missed meanwhile, prompts and questions that were open, and
the paths of two machines. It is the editor's agent and the host's client. Read `bridge.py` first.
"""
