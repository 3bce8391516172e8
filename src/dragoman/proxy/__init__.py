"""Programs between an editor and an agent that read what they pass on: translation of versions, chains, and the guard.

Owns the connections and their ends. Versions are in `versions/`, rules in `policy/`, and recording, which changes
nothing, in `trace/`. Read `between.py` first, then `translate.py` and `guard/exchange.py`; `audit/` is the log of the
guard.
"""
