"""Steps of zeroth-order training: order list, labels, slopes, records, updates."""
