"""The conversation in lines: what is written is only ever appended, and what is typed comes as whole lines.

Owns the commands, questions, queue, sessions and attachments as plain and inline mode have them. Does not know how a
line reaches the terminal, or how it is typed: `plain.py` and `inline/` do. Read first: client.py; then commands.py.
"""
