"""Login to a host with an OpenID Connect provider: tokens that the provider signs, in place of tokens of the host.

Does not depend on sockets or sessions. Read `tokens.py` first: what makes a token valid. `provider.py` keeps the keys
of the provider, and `logins.py` turns claims into users and rights.
"""
