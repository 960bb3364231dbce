"""What a masked sum gains: the same studies with either kind of trust."""
