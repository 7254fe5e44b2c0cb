"""Take in what other programs remember: through the same comparison as `remember`."""
