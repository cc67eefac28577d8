"""Judges of what a fault run left behind. Pure: plain data in, violations out.

evidence.py      what is judged: the operations that the processes wrote down, and what Redis held at the end
replay.py        a conversation's log, replayed through a small model of who may do what
known_order.py   the main check: every write says its place in the log, so the order is known and checking is linear
screens.py       what customers were shown: the log and nothing else, no piece of a message after its end
linear.py        an independent check: is there any order at all that explains what every caller saw?
"""
