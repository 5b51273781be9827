"""How good the serving model is now: predictions joined with later labels, links, and drift. No Faust, no torch.

`monitor.Monitor` is the way in, `publishing` tells others what it found.
"""
