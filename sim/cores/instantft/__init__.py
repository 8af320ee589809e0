"""`instantft`: bench, rules, jobs, tuning and trials."""
