"""What a controller with its agents does to the links of a twin."""
