"""Review and rewind on the full screen; their models are in `tui/changes/`."""
