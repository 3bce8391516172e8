"""Version 1 with version 2, both ways: `v1_client.py` and `v2_client.py` are the translators.

Does not know the dialect. Read `v1_session.py` first: when a prompt ends is the hard part.
"""
