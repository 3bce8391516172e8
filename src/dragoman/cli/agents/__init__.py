"""The actions of `dragoman agents`, one module each: list, show, add, remove, install, accept, doctor, update.

They read the command line and write tables, questions and JSON; which agents exist is the concern of
`dragoman.registry`, and what the user accepted that of `dragoman.settings`. Text from a repository, the registry or an
agent is made safe for the terminal before it is written.
Read `context.py` first, then any action.
"""
