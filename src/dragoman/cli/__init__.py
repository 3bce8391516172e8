"""The command line, one module per verb.

Owns arguments, streams and exit codes. It contains no protocol logic, and no other package imports it. A short start-up
is part of its contract: `--help` and `--version` load no command, and a command loads only what it uses.
Read `main.py` first, then a module of `commands/`.
"""
