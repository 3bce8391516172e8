"""Questions to the user at the terminal, and the progress shown there, for the headless commands.

Owns the protocol's questions (permission, forms, pages, login) on a terminal. It does not depend on connections, policy
or commands. All text of a peer passes through `dragoman.text` before it is written. Modules are imported one by one: a
run without a user needs `progress.py` alone. Read `user.py` first, then `permission.py`.
"""
