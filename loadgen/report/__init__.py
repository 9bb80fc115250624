"""RequestRecords to a Report."""
