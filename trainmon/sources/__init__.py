"""The only readers of log bytes.

`reader.Reader` follows many files from one thread; `files.FollowedFile` is one file and its generations;
`patterns` turns what the user named into paths; `rawfile.RawLog` reads one file at random for the log view;
`discover` finds logs when the user named none.
"""
