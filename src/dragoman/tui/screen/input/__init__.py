"""The input of the full screen, and prompts on their way: queue, steering, commands. `prompt_input.py` first."""
