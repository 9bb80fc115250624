"""Public trace formats, one small file each."""
