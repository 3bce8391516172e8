"""Pictures in the conversation: decoded in a thread, kept within limits, drawn as cells. Read `shown.py` first."""
