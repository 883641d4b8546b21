"""The paper: one study per figure, its claims as checks. ``python -m paper``, in the repository.

Of understudy it uses only what docs/reference.md lists (tests/docs/test_reference.py).
"""
