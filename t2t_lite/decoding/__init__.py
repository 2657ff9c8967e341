"""Search for outputs."""
