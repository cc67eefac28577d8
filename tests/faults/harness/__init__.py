"""A fault harness: real worker processes on one real Valkey, customers and people, and a nemesis that breaks things.

plan.py      what will happen, from a seed alone: the same seed gives the same plan
server.py    the Valkey that the nemesis may kill
nursery.py   a process that forks workers, so that a restart takes milliseconds
worker.py    one worker process: a real Router behind a small door
recorded.py  a Store that writes down every operation, and tags every write so that the log proves what it did
model.py     the model: what it says is written in the customer's message
clients.py   customers and people, who talk to the workers' doors
screens.py   what customers see: live feeds, through every restart of the server
nemesis.py   kill -9, SIGSTOP, server restarts, clocks set back
run.py       one run, from the plan to the evidence that tests/faults/checkers judges
"""
