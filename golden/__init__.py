"""What every bit must be: integer models, one file a block. Never imports hw."""
