"""Schedule to RequestRecords: open loop over real connections."""
