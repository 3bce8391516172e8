"""What a judgement looks like: on a terminal, for machines, for test servers, as a page, as one line.

Each writer takes a `ConformanceReport` and does not depend on how it was made. Read `model.py` first.
"""
