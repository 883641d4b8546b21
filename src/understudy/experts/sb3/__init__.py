"""Stable-Baselines3's archives, from files and from the hub, read without torch and without running a pickle.

`archive` opens the zip, `pickles` reads a pickle as records and makes numbers, arrays and spaces of them,
`torchfile` reads the weights, `layout` makes the network.
"""
