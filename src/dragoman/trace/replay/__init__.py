"""A recording played as a fake agent or as a fake client, with the ids of the live run."""
