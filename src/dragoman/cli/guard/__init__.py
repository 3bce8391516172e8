"""What `dragoman guard` reads before it starts: options, rules, sandbox, environment, log.

The guard itself is in `dragoman.proxy.guard`. Read `setup.py` first.
"""
