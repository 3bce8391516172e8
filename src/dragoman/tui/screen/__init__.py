"""The terminal client as a full screen, on Textual: conversation, input, questions, sessions. Read `app.py` first.

Draws what `view/` lays out; text that is not ours is safe before it gets here, and `strips.py`, where every cell is
made, checks it once more.
"""
