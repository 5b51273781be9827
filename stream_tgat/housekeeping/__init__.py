"""What a worker does beside its agents: by the clock, in its log, and on its page of metrics.

`releases` (the model that serves), `quality` (how good it is now), `propagation_topic`, `process_beside` (renewal and
the query service), `state_folder`; `timers` runs what recurs; `reporting`, `telling` and `transactions` write the log,
`observing` reads the metrics.
"""
