"""The user's hooks: commands before and after tool calls, on a prompt, at the end of a turn, on a notification.

A hook gets JSON on its stdin and answers with its exit code, or with JSON. It can refuse more than the rules do, and
never permits what a rule denies or wants asked. Read `session_hooks.py` first; `answer.py` reads what a hook prints,
`edits.py` runs formatters and checks after an edit. Does not decide which hooks may run: `settings/` does.
"""
