"""Real interaction data for the demo, the tests and the experiments; a loader knows one source and no model."""
