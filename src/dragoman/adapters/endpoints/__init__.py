"""Adapters for agents behind HTTP: AI SDK UI-message streams, AG-UI events, chat completions.

`http.py` speaks HTTP for all of them; each other module owns one kind of endpoint.
"""
