"""What `dragoman wrap` needs next to the adapters: the source that its words name, and settings for editors."""
