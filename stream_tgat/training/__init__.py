"""Learning from the log: what turns recorded interactions and labels into a release that a worker serves."""
