"""AI SDK clients at a host: a chat is posted, UI-message chunks come back, and the chat is a hosted session.

Owns the endpoint of `dragoman serve --ui-stream`. To the host each turn of a chat is a connection like any other, with
the rights of its token. Read `endpoint.py` first; `uistream/from_updates.py` makes the chunks.
"""
