"""A trial (one learner, one stream, one seed), its record in a result folder, and the data that trials share."""
