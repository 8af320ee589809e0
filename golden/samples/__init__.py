"""Samples to train and test on: the embedded digits, files of the user's, and their drifts."""
