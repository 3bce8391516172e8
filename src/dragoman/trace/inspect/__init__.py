"""Showing a recording: messages paired, sessions folded, as a timeline, a page or JSON lines."""
