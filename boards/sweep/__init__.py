"""Sweeps over a block's settings and its training, on Optuna: spaces as data, objectives, resumable studies."""
