"""What is decided about 400 requests by 30 sets of rules, compared with what was decided before."""
