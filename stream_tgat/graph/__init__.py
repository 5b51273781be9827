"""Interactions as arrays: neighbourhoods in the past, samplers, activity, splits. NumPy only."""
