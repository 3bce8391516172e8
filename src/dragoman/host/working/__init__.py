"""The parts of a hosted session: its prompts, its agent, its questions, its settings, and what its agent is served.

`dragoman.host.session` puts them together. Read `prompt_queue.py` first.
"""
