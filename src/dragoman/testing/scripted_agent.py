"""The scripted agent as a program on stdio: `python -m dragoman.testing.scripted_agent`.

It needs nothing but the base install. The agent itself is in `actor.py`.
"""

from dragoman.testing.actor import scripted_agent

if __name__ == "__main__":
    scripted_agent().run()
