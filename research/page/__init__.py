"""The page of results: tables and figures made of the queue's files, between the prose of a template."""
