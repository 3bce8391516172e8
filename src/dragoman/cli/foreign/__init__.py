"""`dragoman agent import`: what is shown of the proposals, and what the user is asked."""
