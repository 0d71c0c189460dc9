"""Objects as rows of a Table, with the columns kubectl's users know."""
