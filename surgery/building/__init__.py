"""What rules and passes make graphs with: builders, formulas over values, and the facts of a net that rules read."""
