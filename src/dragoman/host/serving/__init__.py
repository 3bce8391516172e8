"""A host with network endpoints: who may enter, how much each principal may use, and how the program ends.

Owns named tokens, tickets for browsers, limits, counters, the access log, and the listening sockets of
`dragoman serve`. What happens in a session belongs to `dragoman.host`. Read `server.py` first.
"""
