"""The commands, a short file each: parse, call the engine, say errors in a line."""
