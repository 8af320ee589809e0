"""Host software: register driver and jobs."""
