"""The languages agents speak to a model: each reads a request into a `Question` and writes a `Reply`.

Owns shapes only; what is said is decided elsewhere. Each module has the functions `read`, `whole` and `stream`.
"""
