"""Shows a recording as a timeline, a page or JSON lines, with messages paired and sessions folded."""
