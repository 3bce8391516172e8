"""The rules of docs/spec/rules.md that show in recorded traffic, by area.

Every module has a table `CHECKS`: (method, part) -> a function that looks at one frame, reports what it breaks and
notes in the `Facts` what later messages depend on. Nothing here sends, waits or guesses: what a recording cannot prove
is not reported as a broken rule. Read `facts.py` first, then `turns.py`.
"""
