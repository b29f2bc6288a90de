"""The HTTP interface of the service: who is let in, what arrives, which function answers, and what goes out."""
