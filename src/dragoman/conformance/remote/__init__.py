"""The judgement of how an agent is served over HTTP and WebSocket: statuses, headers, and who is let in.

Owns the cases about requests. What an agent says in its messages is judged by `dragoman.conformance.agent`, over the
same connection. Read `cases.py` first.
"""
