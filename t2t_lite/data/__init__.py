"""Raw strings to padded batches."""
