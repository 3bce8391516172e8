"""Programs between an editor and an agent that read what they pass on: translation of versions, and the guard.

Owns the two connections and their ends. Versions are in `versions/`, rules in `policy/`, and recording, which changes
nothing, in `trace/`. Read `translate.py` first, then `guard/exchange.py`; `audit/` is the log of the guard.
"""
