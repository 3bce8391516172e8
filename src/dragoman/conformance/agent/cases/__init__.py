"""The cases for agents, one module per area of the protocol."""
