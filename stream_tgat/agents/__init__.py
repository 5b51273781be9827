"""The Faust agents of a worker, and what they need of the brokers.

`ingest` reads interactions and node features, `propagate` owns nodes and computes, `checking` reads labels. They
decode, call the engine and send: what is said between them is `message_passing`, how records travel is `transport`.
Beside them: `releases` (the model that serves), `committing`, `throttle`, `sources`, `state_folder`; `committed` and
`standing_still` (how far all workers are); `metrics`, `observing`, `telling`, `holding` (what a worker says of itself).
"""
