"""Recording: a relay between a client and an agent that writes down every line, and an observer that does so inside."""
