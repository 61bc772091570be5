"""What everything else is made with: errors, tensors, tables, files."""
