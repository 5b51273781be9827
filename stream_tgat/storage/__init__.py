"""Rows of past interactions: their bytes, their place in memory, and the stores that keep them.

From below: `layout` (bytes in a store), `stores`, `tables` and `rows` (arrays in memory and compiled loops over them),
`pool` (the arrays and their room), `stored_nodes` and `changes` (from a store into the pool, and back), `arena` (the
cache of it all).
"""
