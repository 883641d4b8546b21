"""Environments: what a policy acts in."""
