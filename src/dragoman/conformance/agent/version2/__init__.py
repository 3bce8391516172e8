"""The judgement of agents of version 2: the judge as a client of that version, its cases, and how they are run."""
