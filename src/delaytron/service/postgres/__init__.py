"""The service on many machines: stateless front ends, one learner process at a time, and PostgreSQL between them.

A front end decides with the newest state that the learner has published, and writes its decisions and all answers to
the inbox. The learner turns the inbox into facts, in one transaction, and learns from them. It alone orders the facts,
so the state is the replay of the facts.
"""
