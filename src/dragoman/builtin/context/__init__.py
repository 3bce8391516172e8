"""What the model is given besides the tools: instructions, commands, history, titles and the system prompt."""
