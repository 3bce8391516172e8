"""A recording shown as a timeline, a page or JSON lines, with messages paired and sessions folded."""
