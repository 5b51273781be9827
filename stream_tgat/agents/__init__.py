"""The Faust agents: ingest, propagate, releases. They decode, call the engine and send; the work is elsewhere."""
