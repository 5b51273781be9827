"""One file per table or figure: which runs it takes, and how it is drawn from their results."""
