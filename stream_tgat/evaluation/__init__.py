"""How good a model is on interactions and labels that it has not learnt from, beside simple rules. Knows no Kafka."""
