"""What an agent asks its user for besides permission: values of a form, and a visit to a page.

Owns what a field accepts, what is known about an address, and the start of a browser. Does not show anything: every
user interface draws forms in its own way. Read `form.py` first.
"""
