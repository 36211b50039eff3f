"""Keys of a join that is no equality: sets of numbers for the rows of both sides, of which each pair shares one."""
