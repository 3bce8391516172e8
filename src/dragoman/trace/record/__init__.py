"""Recording: a relay process between a client and an agent, and an observer inside one of them."""
