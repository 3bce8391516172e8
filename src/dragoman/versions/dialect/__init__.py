"""Version 1 with the dialect 2025.1, both ways: `client.py` and `agent.py` are the translators.

Does not know version 2. Read `fields.py` first.
"""
