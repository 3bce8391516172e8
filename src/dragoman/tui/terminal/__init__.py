"""What is known of the user's terminal, and what it can be asked to do besides showing text. No widgets."""
