"""The model renews itself: retraining from the log, the gate, promotion, re-encoding. Knows no Faust."""
