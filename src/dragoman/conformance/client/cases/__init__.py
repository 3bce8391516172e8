"""The cases for clients, one module per area of the protocol."""
