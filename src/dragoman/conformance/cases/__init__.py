"""The cases, one module per area: `agent_*.py` bind agents, `client_*.py` bind clients.

A module here only provokes and looks; playing the other side is the probe's work. Read `agent_initialize.py` first.
"""
