"""Programs between an editor and an agent that read what they pass on: translation between versions of the protocol.

Owns the two connections and their ends. Does not know versions (`versions/`) or rules (`policy/`); recording, which
changes nothing, is in `trace/`. Read `translate.py` first.
"""
