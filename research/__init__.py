"""Experiments on real data: TGAT beside its baselines. Imports stream_tgat, which knows nothing of it; in no wheel."""
