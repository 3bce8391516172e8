"""`dragoman eval`: the actions of the command. Read `run.py` first.

Tasks, runs, judges and numbers are in `dragoman.evaluation`; here are options, progress and output.
"""
