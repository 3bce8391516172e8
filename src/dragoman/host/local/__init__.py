"""The host of this machine's user: one process, started when it is first needed, like a tmux server.

Owns where its socket is, how two starters agree on one host, and when it ends. What a host does with sessions is in
`dragoman.host`. `place.py`, `build.py`, `permit.py`, `lines.py` and `thin.py` are loaded by clients at every start and
import next to nothing. Read `start.py` first: it is the protocol between starters and the host; `daemon.py` is the
program.
"""
