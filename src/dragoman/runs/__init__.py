"""One agent program with one session, under guard, reported as events: its terms, what it did, the result of a turn.

Does not depend on a user interface, a queue or a log of events. `terms.py` and `sandbox.py` are loaded before the
agent's program is started, so they load neither asyncio nor the protocol. Read `agent_run.py` first.
"""
