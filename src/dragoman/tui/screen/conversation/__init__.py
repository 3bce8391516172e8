"""The conversation on the full screen: lines, colours, the cursor over its blocks. Read `transcript.py` first."""
