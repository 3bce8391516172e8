"""Remembers things between runs, in files of the user's: sessions, and the rules the user wrote or confirmed.

Knows where such files are and how they are written so that a crash loses nothing; does not know the protocol's wire
nor what a rule means to anybody. Read `places.py` first.
"""
