"""The generated types, the codec and the generator."""
