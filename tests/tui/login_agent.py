"""The scripted agent behind a login: `login_agent.py MARK`, which `login_agent.py MARK --login` does in a terminal."""

import sys
from pathlib import Path

mark = Path(sys.argv[1])
if sys.argv[2:] == ["--login"]:
    if not sys.stdin.isatty():
        sys.exit("a login needs a terminal")
    code = input("the code, please: ")
    if code != "1234":
        sys.exit(5)
    mark.write_text("yes")
else:
    from dragoman.testing.agent import scripted_agent

    scripted_agent(requires_login=not mark.exists()).run()
