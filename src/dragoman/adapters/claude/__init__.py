"""Claude Code as an agent: the installed program `claude`, through its stream of JSON messages on stdin and stdout.

Does not depend on a package of its vendor. Read `adapter.py` first, then `live_session.py` and `events.py`.
"""
