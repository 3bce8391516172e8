"""The built-in coding agent: a loop that turns prompts into model calls and tool calls.

Owns the loop, its sessions and its tools; the stream between them is the AI SDK's UI-message chunk (`uistream/`). Does
not know how bytes move, nor a provider's wire format outside `models/`. Read `agent.py` (the ACP handlers), then
`session.py` (an open session), `turn.py` and `loop.py` (one turn), `permission.py`, and `viewer.py` (one client).
"""
