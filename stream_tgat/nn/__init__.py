"""The model in torch: time encoding, attention, TGAT, heads. Knows no Kafka and no storage."""
