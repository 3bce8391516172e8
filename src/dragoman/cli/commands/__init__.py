"""One module per verb; each exports a `COMMAND` and is imported when its verb is used.

The table in `cli/table.py` names the verbs; a module here says what its verb takes and does.
Read `methods.py` first.
"""
