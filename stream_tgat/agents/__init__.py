"""The Faust agents of a worker, and what they share.

`ingest` reads interactions and node features, `propagate` owns nodes and computes, `checking` reads labels. They
decode, call the engine and send: what is said between them is `message_passing`, how records travel is `transport`.
They share `committing`, `dead_letters`, `registry_wait`, `sources`, `throttle`, `cluster` (what they ask of the
brokers) and `metrics` (what they count).
"""
