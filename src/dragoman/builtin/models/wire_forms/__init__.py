"""The wire forms of model providers: requests from our messages, and chunks from the events that a server streams.

Owns what is sent and read, for each of the four forms. Does not open connections (`models/http.py` does) and does not
run tools. Read `form.py` first, then `conversation.py` and `answer.py`, which all forms share.
"""
