"""Stable-Baselines3's archives, from files and from the hub, read without torch and without running a pickle.

`archive` opens the zip, `pickles` reads a pickle as records, `values` turns records into numbers, arrays and
spaces, `torchfile` reads the weights, `layout` makes the network.
"""
