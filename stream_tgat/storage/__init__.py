"""Rows of past interactions: their bytes, their place in memory, and the stores that keep them."""
