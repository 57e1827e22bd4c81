"""The pure core: values in, values out. No await, clock, random, log or I/O; the time is an argument."""
