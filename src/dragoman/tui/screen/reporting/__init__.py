"""The inspector, exports and bug reports on the full screen; what they show is in `tui/reporting/`."""
