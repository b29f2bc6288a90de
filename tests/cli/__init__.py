"""The command line, one file a command or what several share."""
