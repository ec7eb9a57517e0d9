"""The first process in every member. Standard library only, Python 3.8 and newer.

It runs in images that Mooring did not build, so it imports nothing of the rest of the package,
uses relative imports only (the runtime packs it into one file under another name) and is told
everything by one JSON document. Imports are kept light: a gang starts one launcher a member.
"""
