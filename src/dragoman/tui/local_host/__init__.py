"""What the client asks of the local host: the connection, rows of sessions, prompts that wait, older blocks."""
