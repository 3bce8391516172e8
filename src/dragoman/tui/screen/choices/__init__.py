"""Lists of values that the user chooses from: the agent's model, mode and options, and the client's settings."""
