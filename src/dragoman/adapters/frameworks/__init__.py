"""Adapters for agents of Python frameworks. Each framework is imported when its adapter is made, not before.

For each framework one module maps its events to chunks, which needs no import of it, and one runs it.
"""
