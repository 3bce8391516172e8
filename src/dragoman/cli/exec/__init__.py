"""One turn of any agent, for scripts: one result, one exit code, no process left behind.

Owns options, output forms and exit codes. The protocol is handled by `dragoman.client`, questions to the user by
`cli/prompt`. A short start-up is part of the contract: an import that only some runs need is made where it is needed.
Read `run.py` first, then `exit_code.py`; the result is in `runs/result.py`.
"""
