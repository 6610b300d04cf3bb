"""What an experiment leaves behind for people: the report as a page, in Markdown and CSV, and its figures."""
