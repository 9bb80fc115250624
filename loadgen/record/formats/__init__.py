"""Log formats, one small file each."""
