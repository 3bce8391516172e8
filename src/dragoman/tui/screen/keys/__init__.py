"""Which key does what on the full screen, and the help that lists them. Read `actions.py` first."""
