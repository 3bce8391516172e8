"""The terminal client: a conversation with any agent, in a terminal. Closing it does not end the work.

It is a client of the local host and holds no protocol logic: sessions, queue, questions and history are the host's.
`conversation.py` is what every form of it shares; `plain.py` is the one that only appends lines. Read the first one
first. Does not import `cli/`, which starts it.
"""
