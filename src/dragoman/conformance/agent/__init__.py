"""Judging agents: the judge is the client."""
