"""How good the serving model is now: predictions joined with labels that came later, and drift. Knows no Faust."""
