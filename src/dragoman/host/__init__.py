"""Live sessions that outlive their connections.

A `Host` is a client of the agents it runs and an agent to every client that attaches. Read `session.py` first: a hosted
session has an event log, a queue of prompts, open questions, and any number of attached clients, each of which is a
cursor on the log. `working/` has the parts of a session, `clients/` what a client gets, `history/` what a log means.
"""
