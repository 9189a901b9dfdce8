"""Device workers: one long-lived process per device slot runs trials one after another; the parent supervises."""
