"""Models whose calls are made by `pydantic-ai`: providers that log in in their own way, such as Bedrock and Azure.

Owns the conversion to and from that package, an extra of its own, `providers`. Does not depend
on the wire forms. Read `provider.py` first.
"""
