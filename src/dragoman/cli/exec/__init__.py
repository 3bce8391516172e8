"""One turn of any agent, for scripts: one result, one exit code, nothing left behind.

Knows options, output forms and endings; every word of the protocol belongs to `dragoman.client`, every question to a
person to `cli/person`. Start-up is part of the promise: an import that only some runs need stands where they need it.
Read `run.py` first, then `ending.py` and `result.py`.
"""
