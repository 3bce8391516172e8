"""Text made safe to show: on terminals, in questions to the user, and with secrets replaced by placeholders.

Every program that prints text it did not write itself (from a peer, a file or an agent) passes it through here first.
It does not depend on messages, sessions or streams. Read `terminal.py` first, then `visible.py`.
"""
