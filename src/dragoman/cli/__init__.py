"""Show it: the command line, one verb per module.

It knows words, streams and exit codes; it holds no protocol logic, and nobody imports it. Start-up is part of its
promise: `--help` and `--version` load no command, and a command loads only what it uses.
Read `main.py` first, then a module of `commands/`.
"""
