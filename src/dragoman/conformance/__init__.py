"""Judges a program by the rules of the protocol: provokes it, watches it, and reports what it saw with the evidence.

Owns the cases, the probes that play the other side frame by frame, and the reports. It never uses the library's own
roles to talk to the judged program, because they would refuse to send what a judge has to send. Read `case.py` first.
"""
