"""What a plan is: SQL read as a plan, plans printed as SQL, and the data that rules work on.  The lowest layer."""
