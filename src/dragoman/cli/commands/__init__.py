"""One module per verb; each exports a `COMMAND` and is imported when its verb is used.

`cli/table.py` lists the verbs; a module here declares the arguments and options of its verb and runs it. Larger verbs
have a package of their own for the work (`cli/agents`, `cli/exec`). Read `methods.py` first.
"""
