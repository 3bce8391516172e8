"""What the client finds out about the machine and the folder that it starts in, and what the user chose before."""
