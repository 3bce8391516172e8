"""Short ways for scripts: an agent by name, one question, ready permission policies, content from files.

Owns no mechanism: everything here is a few lines over `dragoman.client`, `dragoman.policy` and `dragoman.registry`.
Does not depend on a user interface. Read `ask.py` first.
"""

from dragoman.scripting.ask import Reply, ask, run
from dragoman.scripting.content import image, link, resource
from dragoman.scripting.named import spawn
from dragoman.scripting.policies import allow_once, deny_all, rules

__all__ = ["Reply", "allow_once", "ask", "deny_all", "image", "link", "resource", "rules", "run", "spawn"]
