"""New spellings of denied commands: generators of lines, and a real bash that shows what a line runs.

`real_bash.py` runs lines against programs that write down their words; `wrapping.py` and `words.py` make lines from a
denied command. Nothing here knows how a line is judged.
"""
