"""The executor that runs trials on this machine's GPU, and the scheduler that sends them there."""
