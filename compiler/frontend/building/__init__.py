"""Values, names and refusals with which every front end builds graphs."""
