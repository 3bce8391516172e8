"""The client role with an agent that speaks version 2 of the protocol; loaded when that was agreed on.

A program uses the same objects as with version 1. Read `link.py` first, which decides when a prompt ends, then
`calls.py` and `requests.py` for what is sent and asked differently.
"""
