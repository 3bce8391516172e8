from dragoman import Agent, Turn

agent = Agent("echo", version="1.0")


@agent.prompt
async def reply(turn: Turn) -> None:
    await turn.say(f"You said: {turn.text}")


agent.run()  # stdio; editors spawn this file
