"""The scripted agent as a program on stdio: `python -m dragoman.testing.scripted_agent`.

It needs only the base install. The agent itself is in `agent.py`.
"""

from dragoman.testing.agent import scripted_agent

if __name__ == "__main__":
    scripted_agent().run()
