"""Updates of version 2 of the protocol, folded into the same session state.

Loaded when the first such update is folded, so that a program that speaks version 1 does not pay for it. Read
`steps.py` first, then `reading.py`.
"""
