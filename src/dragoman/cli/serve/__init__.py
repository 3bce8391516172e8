"""`dragoman serve`: running a host with network endpoints, and its tokens.

Owns the command line of the server; `dragoman.host.serving` does the work. Read `run.py` first.
"""
