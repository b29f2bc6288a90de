"""The serving core: decides, records feedback, commits rows and learns, for all tasks of one log.

It knows neither who asks (HTTP or a program) nor which store keeps the log.
"""
