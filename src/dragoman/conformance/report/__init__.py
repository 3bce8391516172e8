"""What a judgement looks like: on a terminal, for machines, for test servers, as a page, as one line.

Each writer takes a `ConformanceReport` and knows nothing of how it came about. Read `model.py` first.
"""
