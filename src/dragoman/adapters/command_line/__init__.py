"""Command-line tools as agents: each prompt is one run of a program. Read `adapter.py` first.

`child_output.py` runs the program, `output_text.py` cleans what it writes, `snapshot.py` finds the files it changed.
"""
