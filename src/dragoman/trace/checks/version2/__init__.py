"""Checks of traffic in version 2 of the protocol, by the rules of docs/spec/rules-v2.md. Read `checks.py` first."""
