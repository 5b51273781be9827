"""Interactions from files of other people: a JODIE file, a folder, a table. Checked first; knows no model."""
