"""Checks the client against a running server; waits up to ten seconds for it."""

import sys
import time
import urllib.request
from pathlib import Path

for _ in range(200):
    if Path("server.port").exists():
        break
    time.sleep(0.05)
else:
    sys.exit("the server does not run")
signature = urllib.request.urlopen(f"http://127.0.0.1:{Path('server.port').read_text()}/sign?client").read().decode()
print(f"client works, signature {signature}")
