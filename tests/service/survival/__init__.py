"""A service to which something happens: kills, disks, clocks, clients, nodes."""
