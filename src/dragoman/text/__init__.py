"""Text made safe to show: for terminals, in questions, and with secrets replaced by placeholders.

Owns what may reach a screen or a shared file. It does not know messages, sessions or streams. Read `terminal.py` first.
"""
