"""Writes `dragoman.schema`'s types from the ACP JSON schema: schema -> model -> Python.

`python -m tools.schema` writes them, `--check` compares what is there and builds every decoder.
The JSON files next to this one hold names, types and marks only. Read `model.py` first.
"""
