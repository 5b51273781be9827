"""The model renews itself: retraining from the log, the gate, promotion, and what old memos become. Knows no Faust."""
