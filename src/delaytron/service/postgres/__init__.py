"""The service on many machines: front ends that keep nothing, one learner at a time, and PostgreSQL between them.

A front end decides with the newest state that the learner has published. What it decided, and every answer, it writes
to the inbox. The learner makes facts of what is in the inbox, in one transaction, and learns from them. Facts have one
order, which only the learner makes: the state is the replay of the facts.
"""
