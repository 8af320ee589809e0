"""Linux on a board: device-tree overlay and application folder."""
