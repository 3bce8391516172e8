"""The judgement of an agent, a client or a recording by the rules of the protocol, with the evidence of what is broken.

Owns the cases, the probes that play the other side frame by frame, and the reports. It never uses the library's own
roles to talk to the judged program, because they would refuse to send what a judge has to send. `agent/` and `client/`
mirror each other; what they share stands here. Read `case.py` first, then `runner.py`.
"""
