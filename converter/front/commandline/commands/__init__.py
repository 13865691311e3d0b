"""The commands, one module for each subject.

A command parses options, calls one function, prints, and chooses the exit code. Everything beyond click is imported
when a command runs: ``--help`` must be quick.
"""
