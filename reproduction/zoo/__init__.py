"""The making of the zoo: recipes, training, measuring, and adding models with their cards."""
