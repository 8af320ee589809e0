"""`zotrain`: bench, rules, jobs, tuning and trials."""
