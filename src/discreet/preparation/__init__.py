"""Private preparation of rows: bounds, radius, centre, scale, whitening."""
