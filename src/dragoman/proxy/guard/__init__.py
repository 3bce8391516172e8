"""The guard: an agent to the editor and a client to the real agent, which applies rules, limits and additions.

`relay.py` puts it between two connections, `exchange.py` decides about every line: most pass as the bytes they were,
and what the agent wants to be done (permission, files, terminals) is judged and answered here. Does not read settings
or the command line; what is recorded is in `proxy/audit`. Read `exchange.py` first.
"""
