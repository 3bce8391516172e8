"""What the files of other coding agents become here: proposals that the user confirms.

It reads instructions, commands, skills, subagents, MCP servers, hooks, permissions and models of Claude Code, Codex,
opencode and Gemini CLI, and writes what was confirmed. No proposal permits anything: a rule that allows is shown as the
command that adds it. It does not ask and does not print. Read `proposal.py` first, then `reading.py`; `write.py` is
the only module that changes files.
"""
