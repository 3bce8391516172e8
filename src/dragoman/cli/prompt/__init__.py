"""The person at the terminal of the headless commands: what is shown to them, what they are asked.

Knows the questions of the protocol and the screen; knows no connection, no policy, no verb. Everything a peer wrote
passes `dragoman.text.terminal` or `shown.py` before it is written. Modules are imported one by one: a run without a
person needs `progress.py` alone. Read `person.py` first, then `permission.py`.
"""
