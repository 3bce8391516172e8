"""`dragoman web`: the page of the local host, from the command line.

Owns what is printed and how long it stays open; `dragoman.host.local.web_page` opens it. Read `run.py` first.
"""
