"""Judging clients: the judge is the agent."""
