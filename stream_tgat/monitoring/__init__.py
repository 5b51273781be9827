"""How good the serving model is now: predictions joined with labels that came later, and drift. Knows no Faust, no torch.

`monitor.Monitor` is the way in, `publishing` tells others what it found.
"""
