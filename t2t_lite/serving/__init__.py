"""t2t-server: an export behind TensorFlow Serving's JSON routes, with batching and a page."""
