"""The programs whose files are read, one module each: which files there are, and what is in them."""
