"""Load tests for sluiced; README.md beside this file says what each program answers."""
