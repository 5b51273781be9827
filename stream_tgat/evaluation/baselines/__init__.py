"""What a model of links has to face: simple rules, and classifiers on hand-made features of the same past."""
