"""A link on our `ChainLink` that passes everything on; with a word as argument it marks the prompts that it sees."""

import asyncio
import os
import sys

from dragoman.proxy.chain_link import run_link

with open(os.environ["LINK_PIDS"], "a") as pids:
    pids.write(f"{os.getpid()}\n")
word = sys.argv[1] if len(sys.argv) > 1 else ""


def mark(line: bytes) -> bytes:
    return line.replace(b"say ", f"say {word} ".encode()) if word else line


asyncio.run(run_link(from_client=mark))
