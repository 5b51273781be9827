"""Data sets, figures of merit and baselines: what tells whether a model is any good. Knows no Kafka."""
