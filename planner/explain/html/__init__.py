"""Prints an explanation as a page of HTML that needs no network and no script."""
