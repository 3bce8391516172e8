"""A model server on the loopback interface that real agents can be pointed at: scripted, offline, and always the same.

Owns the answers of a model to what tests and the judge write. Speaks OpenAI chat completions and Responses, Anthropic
Messages and Gemini. Knows no agent by name: it uses whatever tools a request offers. Start with `intents.py`.
"""
