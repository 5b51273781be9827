"""The Faust agents: ingest, propagate, releases. They decode, call the engine and send; what they compute is elsewhere."""
