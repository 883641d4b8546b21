"""The paper: one preset per figure, its claims as checks."""
