"""Web access for the built-in agent: checked addresses, responses of bounded size, and readable text.

Owns URLs, which addresses may be reached, one HTTP exchange, charsets, and the conversion of HTML to text. The caller
supplies the decisions of the permission rules. Does not depend on models. Read `fetch.py` first.
"""
