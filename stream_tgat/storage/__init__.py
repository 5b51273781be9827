"""Rows of past interactions: their bytes, their place in memory, and the stores that keep them.

From below: `layout` (bytes in a store), `stores`, `tables` and `rows` (arrays in memory and compiled loops over them),
`pool` (the arrays and their room), `reading` and `writing` (between pool and store), `arena` (the cache of it all).
"""
