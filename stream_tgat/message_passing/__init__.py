"""Message passing between owners of nodes: what packets say, and what one partition makes of them; no Kafka client."""
