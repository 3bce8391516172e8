"""The audit log: records of what agents did, chained by hashes so that a change shows.

`log.py` collects the records and `chain.py` appends them, `files.py` is the form on disk, `verify.py` checks it,
`export.py` writes it in other forms. Does not know the protocol, and does not depend on the guard, which gives it the
fields. Read `files.py` first.
"""
