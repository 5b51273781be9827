"""How far a deployment has come and what holds it up, for whoever asks: workers, commands, the query service, renewal.

`committed` reads it from the changelog, `holding` names the source that rows wait for, `standing_still` tells whether
anything moves.
"""
