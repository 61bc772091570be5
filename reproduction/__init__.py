"""What was made with attribound: the paper again, and the zoo. Users of its public names only."""
