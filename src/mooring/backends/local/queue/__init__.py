"""The machine's queue: jobs that wait here, who of them runs, and what must not be forgotten.

`service` decides and carries out; `store` remembers; each admitted job has a supervising process of
its own, which talks with the service by files in the job's folder (`documents`, `folders`) alone:
either may be killed at any moment.
"""
