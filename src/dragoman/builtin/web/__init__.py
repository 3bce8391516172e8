"""The web as the built-in agent reads it: an address that was looked at, an answer of bounded size, readable text.

Owns URLs, which machines may be reached, one HTTP exchange, charsets, and text out of HTML. What the rules say is
asked of whoever calls; tools and models are not known here. Read `fetch.py` first.
"""
