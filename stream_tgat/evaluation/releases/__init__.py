"""How good a release is on interactions and labels that its training did not learn from. Knows no Kafka."""
